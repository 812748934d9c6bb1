#include "kernels/described/description.h"

#include <doctest/doctest.h>

#include <functional>

#include "base/error.h"
#include "tests/kernels/described/examples.h"
#include "tests/refusal.h"

using namespace moetune;
using namespace moetune::testing;
using Json = nlohmann::json;

namespace {

// The example with one change, a JSON patch; "" if it is sound, else what is said of it.
std::string fault_of(const std::string& name, const std::string& patch) {
  return refusal_of([&] { own_kernel(Json::parse(example_text(name)).patch(Json::parse(patch))); });
}

struct DescriptionFault {
  const char *example, *patch, *said;
};
constexpr DescriptionFault kDescriptionFaults[] = {
    {"vector_add", R"([{"op":"remove","path":"/launches"}])", "lacks the key 'launches'"},
    {"vector_add", R"([{"op":"replace","path":"/launches","value":[]}])", "launches must launch something"},
    {"vector_add", R"([{"op":"replace","path":"/launches","value":[{"memset":"c"}]}])",
     "launches must launch something"},
    {"vector_add", R"([{"op":"remove","path":"/reference"}])", "lacks the key 'reference'"},
    {"vector_add", R"([{"op":"remove","path":"/parameters"}])", "parameters: this key is missing"},
    {"vector_add", R"([{"op":"add","path":"/lunches","value":1}])", "did you mean 'launches'?"},
    {"vector_add", R"([{"op":"replace","path":"/source","value":"../x.cu"}])",
     "source must be a .cu file in the kernel's folder"},
    {"vector_add", R"([{"op":"replace","path":"/source","value":"/etc/x.cu"}])",
     "source must be a .cu file in the kernel's folder"},
    {"vector_add", R"([{"op":"replace","path":"/problem/0/name","value":"a b"}])",
     "problem[0].name must be a name of letters"},
    {"vector_add", R"([{"op":"replace","path":"/problem/0/default","value":0}])",
     "problem[0].default must be an integer from 1 to 1000000000 (got 0)"},
    {"vector_add", R"([{"op":"replace","path":"/problem/0/range","value":[5,1]}])",
     "problem[0].range[1] must be an integer from 5 to"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/name","value":"c"}])",
     "tensors[1].name stands here for the second time"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/dtype","value":"f80"}])",
     "tensors[1].dtype must be a type or problem.NAME: unknown"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/dtype","value":"problem.n"}])",
     "tensors[1].dtype must be a type, or a dimension with choices"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/shape/0","value":"m"}])", "unknown name 'm'"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/shape/0","value":"problem.m"}])", "unknown dimension 'm'"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/shape/0","value":"block_size_x"}])",
     "the parameter 'block_size_x' has no value here"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/align","value":12}])",
     "tensors[1].align must be 1, 2, 4, 8 or 16"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/shape/0","value":"device.sm_count"}])",
     "'device.sm_count' has no value here"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/check","value":"exact"}])",
     "tensors[1].check is for what is written"},
    {"vector_add", R"([{"op":"add","path":"/tensors/0/fill","value":"zeros"}])", "an output begins poisoned"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/1/dtype","value":"i32"}])",
     "lacks the key 'fill', which integers need"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":"constant"}])",
     "tensors[1].fill must be zeros, permutation,"},
    {"vector_add", R"([{"op":"remove","path":"/tensors/0/role"},{"op":"remove","path":"/tensors/0/check"}])",
     "tensors must hold an output"},
    {"vector_add", R"([{"op":"remove","path":"/tensors/0/check"}])", "leaves open how far 'c' may be off"},
    {"vector_add", R"([{"op":"replace","path":"/tensors/0/dtype","value":"bf16"}])",
     "judges 'c', whose type has less than 32 bits"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/entry","value":"a-b"}])",
     "launches[0].entry must be a function's name"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/entry","value":"f<\"x\">"}])",
     "must have types and numbers between < and >"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/grid","value":"ceil_div(n, 0"}])",
     "launches[0].grid: expected ')'"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/grid","value":[1,1,1,1]}])", "has more than 3 elements"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/grid","value":[]}])", "launches[0].grid is empty"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/0","value":"d"}])",
     "names no tensor and no scratch: unknown buffer 'd'"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/3","value":{"i33":"n"}}])",
     "must be a buffer's name, or an object with"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/3","value":{"i32":"call.n"}}])",
     "unknown name 'call.'"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/3","value":{"f32":1e39}}])",
     "must be a number of at most 1e38"},
    {"vector_add", R"([{"op":"replace","path":"/reference/config","value":"block_size_x=128"}])",
     "reference.config lacks a value for 'elements'"},
    {"vector_add", R"([{"op":"replace","path":"/reference/config","value":"block_size_x=1,elements=1"}])",
     "reference.config is no configuration: unknown value"},
    {"vector_add", R"([{"op":"add","path":"/macros","value":{"n":1,"elements":2}}])", "has the name of another macro"},
    {"vector_add", R"([{"op":"add","path":"/macros","value":{"N":"n"}}])", "the dimension 'n' is free"},
    {"vector_add",
     R"([{"op":"add","path":"/macros","value":{"E":"elements"}},)"
     R"({"op":"add","path":"/parameters/1/at","value":"launch"}])",
     "the parameter 'elements' belongs to a launch"},
    {"vector_add", R"([{"op":"add","path":"/constraints","value":[{"expr":"problem.m > elements","why":"x"}]}])",
     "unknown dimension 'm'"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"files":["../a.npy"]}}])",
     "tensors[1].fill.files[0] must be a .npy file in the kernel's folder"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"files":["a.json"]}}])",
     "tensors[1].fill.files[0] must be a .npy file in the kernel's folder"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"files":[]}}])", "must name one file or two"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"files":["1.npy","2.npy","3.npy"]}}])",
     "has more than 2 elements"},
    {"vector_add",
     R"([{"op":"add","path":"/call","value":[{"name":"eps","type":"f32","default":1}]},)"
     R"({"op":"add","path":"/tensors/1/strides","value":["eps"]}])",
     "tensors[1].strides[0]"},
    {"vector_add",
     R"([{"op":"add","path":"/tensors/1/strides","value":["row"]},)"
     R"({"op":"add","path":"/tensors/2/strides","value":["row"]}])",
     "tensors[2].strides[0]"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/shape/-","value":{"any":"8"}}])",
     "tensors[1].shape[1] is for the first dimension alone"},
    {"vector_add", R"([{"op":"replace","path":"/reference","value":{"arrays":{"a":["a.npy"]}}}])",
     "reference.arrays.a is of no tensor that is written"},
    {"vector_add", R"([{"op":"replace","path":"/reference","value":{"arrays":{"c":["1.npy","2.npy"]}}}])",
     "reference.arrays.c must name as many files as the inputs have: 1"},
    {"vector_add", R"([{"op":"replace","path":"/reference","value":{"arrays":{}}}])",
     "reference.arrays lacks the tensor 'c'"},
    {"vector_add", R"([{"op":"replace","path":"/reference","value":{"arrays":{"c":["1.npy"]}}}])",
     "reference.arrays is of inputs that are drawn: 'a' must have files"},
    {"vector_add", R"([{"op":"add","path":"/syntax","value":"ruby"}])", "unknown syntax 'ruby'"},
    {"vector_add",
     R"([{"op":"add","path":"/call","value":[{"name":"m","type":"i64","default":1}]},)"
     R"({"op":"replace","path":"/tensors/1/shape/0","value":"m"}])",
     "'m' has no value here: a call states it later"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"formula":"i + m"}}])",
     "tensors[1].fill.formula: unknown name 'm'"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"formula":"i % 7","other":2}}])",
     "tensors[1].fill must be zeros"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"integers":"n","over":2}}])",
     "tensors[1].fill must be zeros"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"formula":"i % 7","over":0}}])",
     "tensors[1].fill.over must be a number above 0"},
    {"vector_add",
     R"([{"op":"replace","path":"/tensors/1/shape/0","value":"n * i"},)"
     R"({"op":"add","path":"/tensors/2/fill","value":{"formula":"i"}}])",
     "unknown name 'i'"},
    {"vector_add",
     R"([{"op":"replace","path":"/tensors/2/shape/0","value":"n + i"},)"
     R"({"op":"add","path":"/tensors/1/fill","value":{"formula":"i"}}])",
     "unknown dimension 'i'"},
    {"vector_add", R"([{"op":"add","path":"/tensors/1/fill","value":{"offsets":"n"}}])",
     "tensors[1].fill has offsets, which are for integers"},
    {"vector_add", R"([{"op":"add","path":"/launches/0","value":{"symbol":"fixed","of":"d"}}])",
     "launches[0].of names no tensor and no scratch"},
    {"vector_add", R"([{"op":"add","path":"/launches/0","value":{"symbol":"a b","of":"a"}}])",
     "launches[0].symbol must be a name of letters"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/3","value":{"struct":[]}}])",
     "launches[0].arguments[3].struct is empty"},
    {"vector_add", R"([{"op":"replace","path":"/launches/0/arguments/3","value":{"struct":["a"]}}])",
     "launches[0].arguments[3].struct[0] must be an object with one of i8"},
    {"softmax", R"([{"op":"replace","path":"/launches/0/arguments/2","value":{"i32":"device.sms"}}])",
     "unknown name 'device.sms'"},
    {"softmax", R"([{"op":"replace","path":"/reference/launches/0/grid","value":"THREADS"}])",
     "the parameter 'THREADS' has no value here"},
    {"softmax", R"([{"op":"replace","path":"/reference/launches/0/grid","value":"shared_bytes"}])",
     "the parameter 'KEEP' has no value here"},
    {"softmax", R"([{"op":"replace","path":"/reference/baseline","value":"yes"}])",
     "reference.baseline must be true or false"},
    {"matmul", R"([{"op":"replace","path":"/problem/3/choices","value":["bf16","half"]}])",
     "must name a dimension whose choices are types"},
    {"matmul", R"([{"op":"replace","path":"/problem/3/choices","value":["bf16","i32"]}])", "all integers or none"},
    {"matmul", R"([{"op":"replace","path":"/launches/1/when","value":"problem.dtype"}])", "launches[1].when"},
    {"matmul", R"([{"op":"replace","path":"/launches/1/entry","value":"gemm<T, 1, 1, 1, 1>"}])",
     "is another instance of a template that is launched"},
    {"matmul", R"([{"op":"replace","path":"/call/0/type","value":"f16"}])", "call[0].type must be f32 or i64"},
    {"matmul", R"([{"op":"replace","path":"/rules/0/expr","value":"call.alpha > 1"}])", "unknown name 'call.'"},
    {"matmul", R"([{"op":"replace","path":"/cost/flops","value":{"f16x":"1"}}])", "unknown"},
    {"matmul", R"([{"op":"replace","path":"/reference/launches/0/arguments/2","value":"parts"}])",
     "takes the scratch 'parts', which it does not have"},
};

}  // namespace

TEST_CASE("the examples are sound, and no longer than they should be") {
  for (const auto& [name, most] : {std::pair("vector_add", 15), std::pair("softmax", 25), std::pair("matmul", 40)}) {
    CAPTURE(name);
    CHECK(fault_of(name, "[]") == "");
    const std::string text = example_text(name);
    CHECK(std::count(text.begin(), text.end(), '\n') <= most);
  }
}

TEST_CASE("each fault of a description is one sentence that names the file, the key and what would be right") {
  for (const DescriptionFault& fault : kDescriptionFaults) {
    CAPTURE(fault.patch);
    const std::string said = fault_of(fault.example, fault.patch);
    CHECK_MESSAGE(said.find(fault.said) != std::string::npos, said);
    CHECK(said.find("own/kernel.json") == 0);
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("a kernel is named as its folder is") {
  CHECK_THROWS_WITH_AS(read_description(example_text("softmax"), "x/kernel.json", "x"),
                       doctest::Contains("kernel must be 'x', as the folder is named"), BadInput);
}

namespace {

// Makes a value of so many things, given the sound description.
using Made = std::function<Json(std::size_t count, const Json& sound)>;

struct DescriptionLimit {
  const char* path;
  Made made;
  std::size_t most;
  const char* said;  // of one more
};

Made text(const std::string& before, const std::string& each, const std::string& after, const std::string& close = "") {
  return [=](std::size_t count, const Json&) {
    std::string made = before;
    for (std::size_t i = 0; i < count; ++i) made += each;
    made += after;
    for (std::size_t i = 0; i < count; ++i) made += close;
    return Json(made);
  };
}

Made list_of(const Json& like) {
  return [=](std::size_t count, const Json&) { return Json(count, like); };
}

Made struct_of(const Json& like) {
  return [=](std::size_t count, const Json&) { return Json::object({{"struct", Json(count, like)}}); };
}

// With names of their own, behind what is at `path`.
Made named(const Json& like, const char* path = "") {
  return [=](std::size_t count, const Json& sound) {
    Json list = *path == 0 ? Json::array() : sound[Json::json_pointer(path)];
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back(like);
      list.back()["name"] = "z" + std::to_string(i);
    }
    return list;
  };
}

Made members(const Json& value) {
  return [=](std::size_t count, const Json&) {
    Json made = Json::object();
    for (std::size_t i = 0; i < count; ++i) made["z" + std::to_string(i)] = value;
    return made;
  };
}

// Launches with `each` such arguments or fewer.
Made arguments(const Json& argument, std::size_t each) {
  return [=](std::size_t count, const Json& sound) {
    Json list = Json::array();
    for (; count > 0; count -= std::min(count, each)) {
      list.push_back(sound["launches"][0]);
      list.back()["arguments"] = Json(std::min(count, each), argument);
    }
    return list;
  };
}

Json launches_and(std::size_t count, const Json& sound, const Json& like) {
  Json list = sound["launches"];
  while (list.size() <= count) list.push_back(like);
  return list;
}

const DescriptionLimit kDescriptionLimits[] = {
    {"/problem", named({{"default", 1}, {"free", true}}, "/problem"), 3, "at most 4 dimensions are free"},
    {"/problem", named({{"default", 1}}, "/problem"), 31, "has more than 32 elements"},
    {"/call",
     [](std::size_t count, const Json&) {
       return Json{{{"name", std::string(count, 'n')}, {"type", "i64"}, {"default", 1}}};
     },
     31, "at most 31 of them"},
    {"/problem/0/doc", text("", "d", ""), 4096, "is longer than 4096 bytes"},
    {"/launches/0/entry", text("", "e", ""), 63, "has a name of more than 63 characters"},
    {"/launches/0/entry", text("e<", "1", ">"), 253, "is longer than 256 characters"},
    {"/launches/0/grid", text("1", " ", ""), 4095, "longer than 4096"},
    {"/launches/0/grid", text("", "(", "1", ")"), 63, "nested more than 64 deep"},
    {"/launches/0/grid", list_of(1), 3, "has more than 3 elements"},
    {"/launches/0/arguments", list_of("a"), 40, "has more than 40 elements"},
    {"/launches", [](std::size_t count, const Json& sound) { return launches_and(count, sound, sound["launches"][0]); },
     7, "is one launch too many: at most 8"},
    {"/launches",
     [](std::size_t count, const Json& sound) {
       return launches_and(count, sound, {{"memset", "c"}});
     },
     8, "is one memset too many"},
    {"/launches", arguments("a", 40), 120, "all launches take at most 8 maps and structs, and 120 others"},
    {"/launches", arguments({{"struct", {{{"i64", 1}}}}}, 3), 8, "at most 8 maps and structs, and 120 others"},
    {"/launches/0/arguments/3", struct_of({{"i64", 1}}), 16, "ends past byte 128"},
    {"/launches/0/arguments/3", struct_of({{"i8", 1}}), 128, "has more than 128 elements"},
    {"/tensors", named({{"dtype", "f32"}, {"shape", {"n"}}}, "/tensors"), 13, "has more than 16 elements"},
    {"/tensors/1/shape", list_of(2), 6, "has more than 6 elements"},
    {"/call", named({{"type", "i64"}, {"default", 1}}), 24, "is one field too many"},
    {"/call", named({{"type", "f32"}, {"default", 1}}), 4, "is one field too many"},
    {"/presets", named({{"problem", "n=1"}}), 64, "has more than 64 elements"},
    {"/rules", list_of({{"expr", "problem.n > 0"}, {"why", "w"}}), 64, "has more than 64 elements"},
    {"/macros", members("1"), 64, "has more than 64 members"},
    {"/let", members("problem.n"), 1020, "names one thing too many: at most 1024"},
    {"/scratch", named({{"bytes", 8}}), 8, "has more than 8 elements"},
};

}  // namespace

TEST_CASE("each limit of a description is met from both sides") {
  const Json sound = Json::parse(example_text("vector_add"));
  for (const DescriptionLimit& limit : kDescriptionLimits) {
    CAPTURE(limit.path);
    CAPTURE(limit.most);
    const auto said_of = [&](std::size_t count) {
      Json changed = sound;
      changed[Json::json_pointer(limit.path)] = limit.made(count, sound);
      return refusal_of([&] { read_description(changed.dump(), "own/kernel.json", "vector_add"); });
    };
    CHECK(said_of(limit.most) == "");
    const std::string said = said_of(limit.most + 1);
    CHECK_MESSAGE(said.find(limit.said) != std::string::npos, said);
  }
}

TEST_CASE("hostile sizes are refused: the file, its depth and keys, and lets that grow without end") {
  const auto refused = [](const std::string& text, const char* said) {
    CHECK_THROWS_WITH_AS(read_description(text, "own/kernel.json", "vector_add"), doctest::Contains(said), BadInput);
  };
  const Json sound = Json::parse(example_text("vector_add"));
  refused(std::string(kMaxDescription + 1, ' '), "is larger than 1 MiB");
  refused(std::string(100000, '['), "nested more than 64 deep");
  refused("{\"kernel\": 1, \"kernel\": 2}", "kernel");
  // Each let doubles the one before: the value overflows, and nothing else happens.
  Json bomb = sound;
  bomb["let"]["l00"] = "problem.n";
  for (int i = 1; i < 90; ++i) {
    const auto name = [](int n) { return "l" + std::to_string(n / 10) + std::to_string(n % 10); };
    bomb["let"][name(i)] = name(i - 1) + " * " + name(i - 1);
  }
  bomb["launches"][0]["grid"] = "l89";
  const auto kernel = own_kernel(bomb);
  const Config config = {{"block_size_x", Value::integer(128)}, {"elements", Value::integer(1)}};
  const Plan plan = kernel->plan(config, own_problem(*kernel, ""), limits_of_architecture("sm_90a"));
  CHECK(plan.launches[0].grid == Dim3{0, 0, 0});  // which is no candidate
}
