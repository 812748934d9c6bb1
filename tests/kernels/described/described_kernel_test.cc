#include "kernels/described/described_kernel.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "search/space.h"
#include "tests/kernels/described/examples.h"
#include "tests/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;
using Json = nlohmann::json;

namespace {

const DeviceLimits& own_limits() {
  static const DeviceLimits limits = limits_of_architecture("sm_90a");
  return limits;
}

Config own_config(const std::string& example, const std::string& text) {
  return Space::parse(example_text(example), example).parse_config(text);
}

Plan softmax_plan(const char* problem, const char* config) {
  const auto kernel = example("softmax");
  return kernel->plan(own_config("softmax", config), own_problem(*kernel, problem), own_limits());
}

}  // namespace

TEST_CASE("softmax launches a block a row, with shared memory for what it keeps") {
  const Plan kept = softmax_plan("rows=77,columns=1000", "THREADS=128,VECTOR=4,KEEP=1");
  CHECK(kept.unit.source == "templates/softmax/softmax.cu");
  CHECK(kept.unit.defines ==
        std::vector<std::pair<std::string, std::string>>{{"THREADS", "128"}, {"VECTOR", "4"}, {"KEEP", "1"}});
  CHECK(kept.unit.instances.empty());
  REQUIRE(kept.launches.size() == 1);
  CHECK(kept.launches[0].entry == EntryName("softmax"));
  CHECK(kept.launches[0].grid == Dim3{77, 1, 1});
  CHECK(kept.launches[0].block == Dim3{128, 1, 1});
  CHECK(kept.launches[0].dynamic_shared == 4000);
  REQUIRE(kept.launches[0].arguments.size() == 3);
  CHECK(kept.launches[0].arguments[0] == Argument{"x", Pointer{"x"}});
  CHECK(kept.launches[0].arguments[2].value == decltype(Argument::value)(std::int32_t{1000}));
  CHECK(softmax_plan("rows=77,columns=1000", "THREADS=128,VECTOR=4,KEEP=0").launches[0].dynamic_shared == 0);
}

TEST_CASE("a described problem has families, buffers, checks, references and a cost like any other") {
  const auto kernel = example("softmax");
  const Problem problem = own_problem(*kernel, "rows=77,columns=1000");
  CHECK(kernel->specialization(problem).text() == "columns=1000");
  CHECK(kernel->problem_of(kernel->specialization(problem), kernel->extents_of(problem)) == problem);
  const std::vector<Buffer> buffers = kernel->buffers(problem, 1);
  REQUIRE(buffers.size() == 2);
  CHECK(buffers[0].name == "x");
  CHECK(buffers[0].rotates);
  CHECK(buffers[0].elements == 77000);
  CHECK(buffers[0].fill.kind == Fill::Kind::normal);
  CHECK(buffers[1].role == Role::output);
  CHECK(buffers[1].check.tolerance.terms == 1000);
  CHECK(buffers[1].check.tolerance.dissimilarity == 1e-5);
  const Plan exact = kernel->reference(Reference::exact, problem, own_limits());
  CHECK(exact.unit.source == "templates/softmax/reference.cu");
  CHECK(exact.unit.defines.back() == std::pair<std::string, std::string>{"EXACT", "1"});
  CHECK(exact.launches[0].grid[0] == 2);
  CHECK(kernel->reference(Reference::baseline, problem, own_limits()).unit.defines.back().second == "0");
  const Cost cost = kernel->cost(problem);
  CHECK(cost.read_bytes == 4 * 77000);
  CHECK(cost.written_bytes == 4 * 77000);
  CHECK(cost.flops.fp32 == 5 * 77000);
}

namespace {

// softmax whose rows of x may lie apart, with a second output if LAST is 1.
std::unique_ptr<const Kernel> strided_softmax(const Json& extra = {{"when", "problem.twice == 1"}}, int align = 16) {
  Json json = Json::parse(example_text("softmax"));
  json["problem"].push_back({{"name", "twice"}, {"default", 0}, {"range", {0, 1}}});
  json["tensors"][0]["strides"] = {"x_row"};
  json["tensors"][0]["align"] = align;
  Json second = json["tensors"][1];
  second["name"] = "z";
  second.update(extra);
  json["tensors"].push_back(second);
  json["launches"][0]["arguments"] = {"x", "z", {{"i64", "x_row"}}};
  return own_kernel(json);
}

}  // namespace

TEST_CASE("a tensor that a problem lacks has no buffer, and its argument is null") {
  const auto kernel = strided_softmax();
  const Config config = own_config("softmax", "THREADS=128,VECTOR=4,KEEP=0");
  for (const bool twice : {false, true}) {
    const Problem problem = own_problem(*kernel, twice ? "rows=7,columns=1000,twice=1" : "rows=7,columns=1000");
    CHECK(kernel->buffers(problem, 1).size() == (twice ? 3 : 2));
    const Plan plan = kernel->plan(config, problem, own_limits());
    CHECK(plan.launches[0].arguments[1].value == decltype(Argument::value)(twice ? Pointer{"z"} : Pointer{}));
    CHECK(kernel->family_interface(problem)->tensors()[2].present == twice);
  }
  CHECK_THROWS_WITH_AS(strided_softmax({{"when", "problem.rows == 1"}}),
                       doctest::Contains("the dimension 'rows' is free"), BadInput);
}

TEST_CASE("rows that lie apart: strides of the call, read from tensors and checked") {
  const auto kernel = strided_softmax();
  const Problem problem = own_problem(*kernel, "rows=7,columns=1000");
  Call call = kernel->default_call(problem);
  CHECK(call.integers[0] == 1000);
  CHECK(kernel->buffers(problem, call, 1)[0].elements == 7000);
  call.integers[0] = 1008;
  CHECK(kernel->buffers(problem, call, 1)[0].elements == 6 * 1008 + 1000);
  const Plan plan = kernel->plan(own_config("softmax", "THREADS=128,VECTOR=4,KEEP=0"), problem, call, own_limits());
  CHECK(plan.launches[0].arguments[2].value == decltype(Argument::value)(std::int64_t{1008}));

  const auto family = kernel->family_interface(problem);
  TensorView x{DType::f32, {7, 1000}, {1008, 1}}, y{DType::f32, {7, 1000}, {1000, 1}};
  const TensorView* const tensors[] = {&x, &y, nullptr};
  Extents extents;
  Call bound;
  family->bind(tensors, "", extents, bound);
  CHECK(bound.integers[0] == 1008);
  x.strides[0] = 1001;
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, bound),
                       "softmax: x_row is 1001 elements; it must be a multiple of 16 bytes, or contiguous", BadInput);
  const auto narrow = strided_softmax({{"when", "problem.twice == 1"}}, 4)->family_interface(problem);
  CHECK(narrow->tensors()[0].alignment == 4);
  narrow->bind(tensors, "", extents, bound);
  CHECK(bound.integers[0] == 1001);
  x.strides = {1, 7};
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, bound), "softmax: tensor 'x' is not contiguous", BadInput);
  x.strides = {1000, 1};
  y.strides[0] = 1008;
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, bound), "softmax: tensor 'y' is not contiguous", BadInput);
}

TEST_CASE("matmul's plans have a template's instance, scratch and a second launch where there are parts") {
  const auto kernel = example("matmul");
  const Problem problem = own_problem(*kernel, "m=100,n=200,k=512,dtype=f16");
  const auto plan_of = [&](int splits) {
    return kernel->plan(
        own_config("matmul", "warps_m=2,warps_n=1,tiles_m=1,tiles_n=2,splits=" + std::to_string(splits)), problem,
        own_limits());
  };
  const Plan whole = plan_of(1), parted = plan_of(4);
  CHECK(whole.unit.instances == std::vector<std::string>{"gemm<T, warps_m, warps_n, tiles_m, tiles_n>"});
  CHECK(whole.unit.defines.front() == std::pair<std::string, std::string>{"T", "__half"});
  CHECK(whole.scratch.empty());
  REQUIRE(whole.launches.size() == 1);
  CHECK(whole.launches[0].entry == EntryName("gemm"));
  CHECK(whole.launches[0].grid == Dim3{7, 4, 1});
  CHECK(whole.launches[0].arguments[3].value == decltype(Argument::value)(Pointer{}));  // there are no parts
  CHECK(whole.launches[0].arguments[8].value == decltype(Argument::value)(1.0f));
  REQUIRE(parted.launches.size() == 2);
  REQUIRE(parted.scratch.size() == 1);
  CHECK(parted.scratch[0].bytes == 4 * 4 * 100 * 200);
  CHECK(parted.launches[0].grid == Dim3{7, 4, 4});
  CHECK(parted.launches[0].arguments[7].value == decltype(Argument::value)(std::int32_t{8}));
  CHECK(parted.launches[1].grid[0] == 79);
  CHECK(parted.launches[1].arguments[3].value == decltype(Argument::value)(std::int64_t{20000}));
  CHECK(kernel->reference(Reference::exact, problem, own_limits()).unit.instances ==
        std::vector<std::string>{"matmul_reference<T>"});

  Call call = kernel->default_call(problem);
  set_field(call, kernel->call_schema(), "alpha", 0.5);
  const Plan halved = kernel->plan(own_config("matmul", "warps_m=1,warps_n=1,tiles_m=1,tiles_n=1,splits=1"), problem,
                                   call, own_limits());
  CHECK(halved.launches[0].arguments[8].value == decltype(Argument::value)(0.5f));
  CHECK_THROWS_WITH_AS(own_problem(*kernel, "k=100"), doctest::Contains("k must be a multiple of 16"), BadInput);
}

TEST_CASE("arguments of every kind, memsets, tensor maps and values that are out of range") {
  Json json = Json::parse(example_text("vector_add"));
  json["call"] = Json::parse(
      R"([{"name": "stride", "type": "i64", "default": 7}, {"name": "beta", "type": "f32", "default": 0.25}])");
  json["scratch"] = Json::parse(R"([{"name": "counters", "bytes": "elements > 1 ? 64 : 0", "zeroed": true}])");
  json["problem"][0]["range"] = {1, 1000000000000};
  json["launches"] = Json::parse(R"([
    {"memset": "c", "value": 255}, {"memset": "counters", "bytes": 32, "when": "elements > 1"},
    {"entry": "own::run", "grid": ["n", 2], "block": [32, 2, 1], "cluster": 2, "dependent": true, "arguments": [
      {"u8": 200}, {"i16": "-5"}, {"u32": 4294967295}, {"i64": "n * call.stride"}, {"f64": 0.5}, {"f32": "call.beta"}, {"f32": "n"},
      {"pointer": "a", "offset": "4 * elements"}, "counters",
      {"map": "b", "dims": [64, "n / 64"], "box": [32, "elements"], "swizzle": "b64", "offset": 16}]},
    {"memset": "a", "bytes": 4}])");
  const auto kernel = own_kernel(json);
  const auto plan_of = [&](int elements, const char* problem) {
    const Config config = {{"block_size_x", Value::integer(64)}, {"elements", Value::integer(elements)}};
    return kernel->plan(config, own_problem(*kernel, problem), own_limits());
  };
  const Plan plan = plan_of(2, "n=640");
  REQUIRE(plan.memsets.size() == 3);
  CHECK(plan.memsets[0] == Memset{"c", 0, 2560, 255, 0});
  CHECK(plan.memsets[1] == Memset{"counters", 0, 32, 0, 0});
  CHECK(plan.memsets[2] == Memset{"a", 0, 4, 0, 1});
  const Launch& launch = plan.launches[0];
  CHECK(launch.entry == EntryName("own::run"));
  CHECK(launch.programmatic_dependent);
  CHECK(launch.cluster == Dim3{2, 1, 1});
  CHECK(launch.block == Dim3{32, 2, 1});
  using Value = decltype(Argument::value);
  CHECK(launch.arguments[0].value == Value(std::int32_t{200}));
  CHECK(launch.arguments[1].value == Value(std::int32_t{-5}));
  CHECK(launch.arguments[2].value == Value(std::int32_t{-1}));
  CHECK(launch.arguments[3].value == Value(std::int64_t{4480}));
  CHECK(launch.arguments[4].value == Value(std::bit_cast<std::int64_t>(0.5)));
  CHECK(launch.arguments[5].value == Value(0.25f));
  CHECK(launch.arguments[6].value == Value(640.0f));
  CHECK(launch.arguments[7].value == Value(Pointer{"a", 8}));
  CHECK(launch.arguments[8].value == Value(Pointer{"counters"}));
  const TensorMap& map = std::get<TensorMap>(launch.arguments[9].value);
  CHECK(map.dims == decltype(map.dims){64, 10});
  CHECK(map.strides == decltype(map.strides){256});
  CHECK(map.box == decltype(map.box){32, 2});
  CHECK(map.swizzle == TensorMap::Swizzle::b64);

  const Plan alone = plan_of(1, "n=64");
  CHECK(alone.scratch.empty());
  CHECK(alone.launches[0].arguments[8].value == Value(Pointer{}));
  // A grid beyond 32 bits cannot be said, so that the plan is one that nothing launches.
  CHECK(plan_of(1, "n=1000000000000").launches[0].grid == Dim3{0, 0, 0});
  CHECK(plan_of(256, "n=64").launches[0].grid == Dim3{64, 2, 1});
  CHECK(plan_of(257, "n=64").launches[0].grid == Dim3{0, 0, 0});  // no tensor map's box is larger than 256
}

TEST_CASE("a family reads its extents from the shapes of tensors, and the call from options") {
  const auto kernel = example("matmul");
  const auto family = kernel->family_interface(own_problem(*kernel, "m=1,n=64,k=32"));
  REQUIRE(family->tensors().size() == 3);
  const auto view = [](DType type, std::int64_t rows, std::int64_t columns) {
    return TensorView{type, {rows, columns}, {columns, 1}};
  };
  const TensorView a = view(DType::bf16, 9, 32), b = view(DType::bf16, 64, 32), c = view(DType::f32, 9, 64);
  const TensorView* const tensors[] = {&a, &b, &c};
  Extents extents;
  Call call;
  family->bind(tensors, "alpha=2.5", extents, call);
  CHECK(extents == Extents{9});
  CHECK(call.reals[0] == 2.5);
  family->bind(tensors, "", extents, call);
  CHECK(call.reals[0] == 1.0);
  CHECK(family->table_point(extents, 0).position[0] == 9);
  CHECK(family->extents_at(family->table_point({5}, 0), extents) == Extents{5});

  const auto refused = [&](const TensorView& other, const char* options, const char* said) {
    const TensorView* const changed[] = {&other, &b, &c};
    CHECK_THROWS_WITH_AS(family->bind(changed, options, extents, call), doctest::Contains(said), BadInput);
  };
  refused(view(DType::bf16, 9, 48), "", "tensor 'a' is [9, 48]; it must be [9, 32]");
  refused(view(DType::f16, 9, 32), "", "it must be bf16");
  refused(view(DType::bf16, 8, 32), "", "tensor 'c' is [9, 64]; it must be [8, 64]");
  refused(TensorView{DType::bf16, {9, 32}, {64, 1}}, "", "is not contiguous");
  refused(TensorView{DType::bf16, {288}, {1}}, "", "it must have 2 dimensions");
  refused(view(DType::bf16, 70000, 32), "", "m=70000 is out of range");
  refused(a, "beta=1", "unknown field of a call 'beta'; known: alpha");
  refused(a, "alpha=x", "is no number");
}

TEST_CASE("fills and checks arrive in the buffers, and what a type cannot hold is bad input") {
  Json json = Json::parse(example_text("vector_add"));
  json["tensors"] = Json::parse(R"([
    {"name": "i", "dtype": "i32", "shape": ["n"], "fill": {"integers": "n"}, "cold": false},
    {"name": "p", "dtype": "i32", "shape": ["n"], "fill": "permutation"},
    {"name": "u", "dtype": "f32", "shape": ["n", 2], "cold": "n > 99", "fill": {"uniform": "n + 1", "over": 2}, "fresh": true},
    {"name": "k", "dtype": "f32", "shape": [4], "fill": {"constant": 0.5}},
    {"name": "s", "dtype": "f32", "shape": ["n"], "role": "inout", "fill": "zeros", "check": {"error": 0.001}},
    {"name": "o", "dtype": "i32", "shape": ["n"], "role": "output", "check": {"sets_of": "n"}}])");
  json["launches"][0]["arguments"] = Json::parse(R"(["i", "p", "u", "k", "s", "o"])");
  const auto kernel = own_kernel(json);
  const std::vector<Buffer> buffers = kernel->buffers(own_problem(*kernel, "n=100"), 1);
  REQUIRE(buffers.size() == 6);
  CHECK(buffers[0].fill.kind == Fill::Kind::zipf);
  CHECK(buffers[0].fill.values == 100);
  CHECK(buffers[0].fill.scale == 0);
  CHECK_FALSE(buffers[0].rotates);
  CHECK(buffers[1].fill.kind == Fill::Kind::permutation);
  CHECK(buffers[2].elements == 200);
  CHECK(buffers[2].fill.scale == 50.5);
  CHECK(buffers[2].rotates);
  CHECK_FALSE(kernel->buffers(own_problem(*kernel, "n=99"), 1)[2].rotates);
  CHECK(buffers[2].fresh);
  CHECK(buffers[3].fill.scale == 0.5);
  CHECK(buffers[4].role == Role::in_out);
  // The share of the largest value that summation_error makes of it.
  CHECK(std::sqrt(buffers[4].check.tolerance.terms) * 0x1p-23 == doctest::Approx(0.001));
  CHECK(buffers[5].check.segment_length == 100);
  CHECK_THROWS_WITH_AS(own_problem(*kernel, "n=2000000"),
                       doctest::Contains("\"n\" is 2000000; it must be from 1 to 1048576"), BadInput);

  json["tensors"][0]["dtype"] = "u8";
  CHECK_THROWS_WITH_AS(own_problem(*own_kernel(json), "n=300"), doctest::Contains("holds integers that u8 cannot"),
                       BadInput);
}

TEST_CASE("fills by a formula, and offsets that ascend to a total") {
  Json json = Json::parse(example_text("vector_add"));
  json["tensors"] = Json::parse(R"([
    {"name": "w", "dtype": "i16", "shape": ["n"], "fill": {"formula": "i % 3 - 1"}},
    {"name": "f", "dtype": "f16", "shape": ["n"], "fill": {"formula": "i * n", "over": 8}},
    {"name": "s", "dtype": "i64", "shape": ["n + 1"], "fill": {"offsets": "5 * n"}},
    {"name": "d", "dtype": "f64", "shape": [1], "role": "output", "check": {"terms": "n"}}])");
  json["launches"][0]["arguments"] = Json::parse(R"(["w", "f", "s", "d"])");
  const auto kernel = own_kernel(json);
  const Problem problem = own_problem(*kernel, "n=100");
  const std::vector<Buffer> buffers = kernel->buffers(problem, 1);
  CHECK_NOTHROW(check_buffers(buffers));
  CHECK(buffers[0].fill.integers[3] == -1);
  CHECK(buffers[0].fill.integers[5] == 1);
  REQUIRE(buffers[1].fill.contents.size() == 1);
  CHECK(load_element(DType::f16, buffers[1].fill.contents[0]->data(), 3) == 37.5);
  const std::vector<std::int32_t>& offsets = buffers[2].fill.integers;
  CHECK(offsets.front() == 0);
  CHECK(offsets.back() == 500);
  CHECK(std::ranges::is_sorted(offsets));
  CHECK(offsets != kernel->buffers(problem, 2)[2].fill.integers);
  CHECK(offsets == kernel->buffers(problem, 1)[2].fill.integers);
  CHECK(exact_dtype(buffers[3].dtype) == DType::f64);
  // Rounding is 2^29 times as fine as of f32.
  CHECK(buffers[3].check.tolerance.terms == doctest::Approx(100 * 0x1p-58));

  CHECK_THROWS_WITH_AS(kernel->buffers(own_problem(*kernel, "n=20000000"), 1),
                       doctest::Contains("tensor 'w' has 20000000 elements"), BadInput);
  json["tensors"][0]["fill"] = {{"formula", "40000 * i"}};
  CHECK_THROWS_WITH_AS(own_kernel(json)->buffers(problem, 1),
                       doctest::Contains("at i = 1 it has no value that a i16 holds"), BadInput);
  json["tensors"][0]["fill"] = {{"formula", "7 / i"}};
  CHECK_THROWS_WITH_AS(own_kernel(json)->buffers(problem, 1), doctest::Contains("at i = 0"), BadInput);
}

TEST_CASE("structs by value, and copies to __constant__ variables") {
  Json json = Json::parse(example_text("vector_add"));
  json["launches"] = Json::parse(R"([
    {"symbol": "fixed", "of": "a", "bytes": "4 * elements"},
    {"symbol": "whole", "of": "b", "when": "elements > 1"},
    {"entry": "f", "grid": 1, "block": 32, "arguments": ["c",
      {"struct": [{"u8": 200}, {"i16": -2}, {"f32": 0.5}, {"i32": "n"}, {"f64": 0.25}, {"i8": 7}]}]}])");
  const auto kernel = own_kernel(json);
  const auto plan_of = [&](int elements) {
    const Config config = {{"block_size_x", Value::integer(64)}, {"elements", Value::integer(elements)}};
    return kernel->plan(config, own_problem(*kernel, "n=640"), own_limits());
  };
  const Plan plan = plan_of(2);
  REQUIRE(plan.memsets.size() == 2);
  CHECK(plan.memsets[0] == Memset{"a", 0, 8, 0, 0, "fixed"});
  CHECK(plan.memsets[1] == Memset{"b", 0, 2560, 0, 0, "whole"});
  struct {
    std::uint8_t u8 = 200;
    std::int16_t i16 = -2;
    float f32 = 0.5f;
    std::int32_t i32 = 640;
    double f64 = 0.25;
    std::int8_t i8 = 7;
  } as_in_cuda;
  const StructValue& value = std::get<StructValue>(plan.launches[0].arguments[1].value);
  REQUIRE(value.words.size() * 8 == sizeof as_in_cuda);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(value.words.data());
  CHECK(bytes[0] == as_in_cuda.u8);
  CHECK(std::memcmp(bytes + 2, &as_in_cuda.i16, 2) == 0);
  CHECK(std::memcmp(bytes + 4, &as_in_cuda.f32, 4) == 0);
  CHECK(std::memcmp(bytes + 8, &as_in_cuda.i32, 4) == 0);
  CHECK(std::memcmp(bytes + 16, &as_in_cuda.f64, 8) == 0);
  CHECK(bytes[24] == 7);
  CHECK(nlohmann::json(plan).get<Plan>() == plan);
  CHECK(plan_of(1).memsets.size() == 1);
}

namespace {

// A folder with arrays of f32 that NumPy might have written.
struct ArraysFolder : TemporaryFolder {
  void write(const std::string& name, const std::vector<float>& values) const {
    std::string header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size()) + ",), }";
    header.resize(118, ' ');
    std::ofstream out(path() / name, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00v\x00", 10) << header;
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * values.size()));
  }

  void write_bytes(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() / name, std::ios::binary) << bytes;
  }

  std::unique_ptr<const Kernel> kernel(const Json& json) const {
    return described_kernel(read_description(json.dump(), file("kernel.json"), json["kernel"].get<std::string>()));
  }
};

float first_float(const Buffer& buffer, std::size_t content) {
  float value = 0;
  std::memcpy(&value, buffer.fill.contents.at(content)->data(), sizeof value);
  return value;
}

}  // namespace

TEST_CASE("inputs and answers may be arrays of files, a content for every other seed") {
  const ArraysFolder folder;
  for (const int which : {0, 1}) {
    folder.write("a." + std::to_string(which) + ".npy", std::vector<float>(64, 1.0f + which));
    folder.write("c." + std::to_string(which) + ".npy", std::vector<float>(64, 11.0f + which));
  }
  folder.write("b.npy", std::vector<float>(64, 10));
  Json json = Json::parse(example_text("vector_add"));
  json["tensors"][1]["fill"] = {{"files", {"a.0.npy", "a.1.npy"}}};
  json["tensors"][2]["fill"] = {{"files", {"b.npy"}}};
  json["tensors"][0]["dtype"] = "bf16";
  json["tensors"][0]["check"] = {{"error", 0.01}};
  json["reference"] = {{"arrays", {{"c", {"c.0.npy", "c.1.npy"}}}}};
  const auto kernel = folder.kernel(json);
  CHECK_FALSE(kernel->reference_computes());
  const Problem problem = own_problem(*kernel, "n=64");
  const std::vector<Buffer> buffers = kernel->buffers(problem, 1);
  REQUIRE(buffers.size() == 4);  // the answer, which no launch of the kernel names, among the inputs
  CHECK_NOTHROW(check_buffers(buffers));
  CHECK(buffers[0].name == "answer.0");
  CHECK(buffers[0].dtype == DType::f32);
  CHECK(first_float(buffers[0], 1) == 12);
  CHECK(first_float(buffers[1], 0) == 1);
  CHECK(first_float(buffers[1], 1) == 2);
  CHECK(buffers[2].fill.contents.size() == 1);
  CHECK(buffers[3].name == "c");
  CHECK(kernel->cost(problem).read_bytes == 512);  // of a and b

  const Plan exact = kernel->reference(Reference::exact, problem, own_limits());
  CHECK(exact.launches[0].entry == "moetune_copy_answer");
  CHECK(std::get<std::int64_t>(exact.launches[0].arguments[2].value) == 256);
  const Plan baseline = kernel->reference(Reference::baseline, problem, own_limits());
  CHECK(baseline.launches[0].entry == "moetune_round_answer");
  CHECK(std::get<std::int64_t>(baseline.launches[0].arguments[3].value) == 64);

  CHECK_NOTHROW(own_problem(*kernel, "n=65"));
  CHECK_THROWS_WITH_AS(kernel->buffers(own_problem(*kernel, "n=65"), 1), doctest::Contains("of another problem"),
                       BadInput);
  CHECK_THROWS_WITH_AS(folder.kernel(json)->buffers(own_problem(*kernel, "n=65"), 1),
                       doctest::Contains("c.0.npy: it has 64 elements; the tensor has 65"), BadInput);
  json["tensors"][2]["fill"]["files"] = {"b.bin"};
  folder.write_bytes("b.bin", std::string(256, '\0'));
  CHECK(first_float(folder.kernel(json)->buffers(problem, 1)[2], 0) == 0);
  folder.write_bytes("b.bin", std::string(255, '\0'));
  CHECK_THROWS_WITH_AS(folder.kernel(json)->buffers(problem, 1),
                       doctest::Contains("b.bin: it has 255 bytes; the tensor's 64 elements have 256"), BadInput);
  json["tensors"][2]["fill"]["files"] = {"missing.npy"};
  CHECK_THROWS_WITH_AS(folder.kernel(json)->buffers(problem, 1), doctest::Contains("missing.npy"), BadInput);
}

TEST_CASE("expressions may be Python's, and name integers of the call by themselves") {
  Json json = Json::parse(example_text("vector_add"));
  json["syntax"] = "python";
  json["call"] =
      Json::parse(R"([{"name": "m", "type": "i64", "default": 5}, {"name": "n", "type": "i64", "default": 7}])");
  json["launches"][0]["grid"] = {"-(-n // (block_size_x * elements))", "m * 2 if call.n > 6 else 1"};
  json["constraints"] = Json::parse(R"j([{"expr": "32 < block_size_x <= 128 or elements in (1, 2)", "why": "x"}])j");
  const auto kernel = own_kernel(json);
  const Problem problem = own_problem(*kernel, "n=1000");
  const Plan plan = kernel->plan(own_config("vector_add", "block_size_x=128,elements=1"), problem, own_limits());
  CHECK(plan.launches[0].grid == Dim3{8, 10, 1});  // n is the dimension
}
