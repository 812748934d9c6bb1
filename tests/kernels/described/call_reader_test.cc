// What a call's tensors show of a problem, and what is refused of them. The tensors are a caller's, checked by nobody.
#include "kernels/described/call_reader.h"

#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "kernels/shown_call.h"
#include "tests/kernels/described/examples.h"

namespace moetune::call_reader_test {
using namespace testing;
using Json = nlohmann::json;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

std::unique_ptr<const Kernel> kernel_of(const char* problem, const char* tensors,
                                        const char* arguments = R"(["x", "y"])") {
  Json json = Json::parse(example_text("vector_add"));
  json["problem"] = Json::parse(problem);
  json["tensors"] = Json::parse(tensors);
  for (Json& tensor : json["tensors"])
    if (tensor.contains("role")) tensor["check"] = "exact";
  json["call"] = Json::parse(
      R"([{"name": "shift", "type": "i64", "default": 0}, {"name": "eps", "type": "f32", "default": 0.5}])");
  json["rules"] = Json::parse(R"j([{"expr": "width % 8 == 0", "why": "width must be a multiple of 8"}])j");
  json["launches"][0]["grid"] = 1;
  json["launches"][0]["arguments"] = Json::parse(arguments);
  return own_kernel(json);
}

constexpr const char* kProblem = R"([
  {"name": "rows", "default": 4, "range": [1, 4096], "free": true},
  {"name": "width", "default": 64, "range": [8, 1024]},
  {"name": "window", "default": 7, "range": [0, 100]},
  {"name": "dtype", "choices": ["bf16", "f16"]},
  {"name": "kind", "choices": ["plain", "scaled"]}])";

const Kernel& halved() {
  static const auto kernel = kernel_of(kProblem, R"([
    {"name": "x", "dtype": "problem.dtype", "shape": ["rows", "2 * width"], "strides": ["x_row"]},
    {"name": "scale", "dtype": "f32", "shape": ["width"], "when": "kind == 'scaled'"},
    {"name": "y", "dtype": "f32", "shape": ["rows", "width"], "strides": ["y_row"], "role": "output"}])");
  return *kernel;
}

// A caller's tensor; contiguous, if no strides are given.
TensorView view(DType dtype, std::initializer_list<std::int64_t> shape,
                std::initializer_list<std::int64_t> strides = {}) {
  TensorView made{dtype, shape, strides};
  std::uint64_t dense = 1;  // wraps around, as a hostile caller's may
  if (strides.size() > 0) return made;
  made.strides = shape;
  for (std::size_t d = shape.size(); d-- > 0; dense *= static_cast<std::uint64_t>(made.shape[d]))
    made.strides[d] = static_cast<std::int64_t>(dense);
  return made;
}

using Given = std::vector<std::optional<TensorView>>;
constexpr std::nullopt_t kNone = std::nullopt;

ShownCall shown(const Kernel& kernel, const Given& given, const char* facts = "") {
  std::vector<const TensorView*> views;
  for (const auto& one : given) views.push_back(one ? &*one : nullptr);
  return kernel.shown_call(views, facts);
}

std::string refusal(const Kernel& kernel, const Given& given, const char* facts = "") {
  try {
    return "serves " + shown(kernel, given, facts).problem;
  } catch (const BadInput& error) {
    return error.what();
  }
}

const TensorView kX = view(DType::bf16, {9, 128}), kScale = view(DType::f32, {64});

}  // namespace

TEST_CASE("sizes, types, tensors and facts say which problem a call is of") {
  for (const auto& [given, facts, specialization] : std::vector<std::tuple<Given, const char*, const char*>>{
           {{kX}, "", "width=64"},
           {{kX, kNone, view(DType::f32, {9, 64})}, "", "width=64"},
           {{view(DType::f16, {9, 128})}, "", "width=64,dtype=f16"},
           {{kX, kScale}, "", "width=64,kind=scaled"},
           {{kX}, "window=7", "width=64,window=7"},
           {{kX, kScale}, "kind=scaled,window=3", "width=64,window=3,kind=scaled"},
           {{kX}, "kind=plain", "width=64"},
           {{view(DType::bf16, {9, 128}, {64, 1})}, "", "width=64"},  // rows of an input may share elements
           {{view(DType::bf16, {9, 128}, {0, 1})}, "", "width=64"}}) {
    const ShownCall call = shown(halved(), given, facts);
    CHECK(call.specialization == specialization);
    CHECK(call.problem == std::string("rows=9,") + specialization);
    CHECK(call.options == "");  // rows are a size by themselves
    CHECK(call.extents == Extents{9});
    CHECK(call.tensors[1].present == (std::string_view(specialization).find("scaled") != std::string::npos));
  }
  const ShownCall call = shown(halved(), {kX, kScale});
  CHECK(call.integers == 1);
  CHECK(call.reals == 1);
  REQUIRE(call.tensors.size() == 3);
  const ShownTensor &x = call.tensors[0], &y = call.tensors[2];
  CHECK(x.dtype == DType::bf16);
  CHECK(x.shape == decltype(x.shape){9, 128});
  CHECK(x.dimensions == decltype(x.dimensions){0, ShownTensor::kNoDimension});
  CHECK(y.role == Role::output);
  CHECK(y.dtype == DType::f32);
  CHECK(y.shape == decltype(y.shape){9, 64});
  CHECK(y.dimensions == decltype(y.dimensions){0, static_cast<int>(Extents::capacity()) + 1});

  const ShownCall names = shown(halved(), {});
  CHECK(names.tensors[1].name == Name("scale"));
  CHECK_FALSE(names.tensors[1].present);
  CHECK(names.problem == "");

  const ShownCall empty = shown(halved(), {view(DType::bf16, {0, 128}, {1001, 1})});
  CHECK(empty.extents == Extents{0});
  CHECK(empty.problem == "rows=0,width=64");
}

TEST_CASE("sizes that are formulas, that fall, or that may be any") {
  const auto kernel = kernel_of(kProblem, R"([
    {"name": "x", "dtype": "f32", "shape": [{"any": "rows"}, "4 * rows", "1024 - width"]},
    {"name": "y", "dtype": "f32", "shape": ["rows * width"], "role": "output"}])");
  const ShownCall call = shown(*kernel, {view(DType::f32, {77, 36, 960})});
  CHECK(call.problem == "rows=9,width=64");
  CHECK(call.options == "rows=9");
  CHECK(call.tensors[0].shape[0] == 77);
  CHECK(call.tensors[0].dimensions[0] == ShownTensor::kAnySize);
  CHECK(call.tensors[1].shape[0] == 576);
  CHECK(refusal(*kernel, {view(DType::f32, {77, 37, 960})}) ==
        "vector_add: 'x' is [77, 37, 960]; it must be [any, 4 * rows, 1024 - width] of some rows");
  CHECK(refusal(*kernel, {view(DType::f32, {kHuge, 36, 960})}) ==
        "vector_add: tensor 'x' would have more than 2^40 elements");
}

TEST_CASE("tensors and facts of no problem are refused in one sentence") {
  const TensorView y = view(DType::f32, {9, 64});
  for (const auto& [given, facts, sentence] : std::vector<std::tuple<Given, const char*, const char*>>{
           {{kX, kNone, kNone, kX}, "", "there are 4 tensors; it takes 3"},
           {{view(DType::bf16, {9})}, "", "'x' has 1 dimensions; it must be [rows, 2 * width]"},
           {{view(DType::bf16, {})}, "", "'x' has 0 dimensions; it must be [rows, 2 * width]"},
           {{view(DType::f32, {9, 128})}, "", "'x' is f32; it must be bf16 or f16"},
           {{kX, view(DType::f16, {64})}, "", "tensor 'scale' is f16; it must be f32"},
           {{kX, view(DType::f32, {32})}, "", "tensor 'x' is [9, 128]; it must be [9, 64]"},
           {{kX, kNone, view(DType::f32, {9, 32})}, "", "tensor 'y' is [9, 32]; it must be [9, 64]"},
           {{view(DType::bf16, {0, 128}), kNone, y}, "", "tensor 'y' is [9, 64]; it must be [0, 64]"},
           {{kX, kNone, view(DType::f32, {8, 64})}, "", "tensor 'y' is [8, 64]; it must be [9, 64]"},
           {{view(DType::bf16, {9, 120})}, "", "width must be a multiple of 8"},
           {{kNone, kNone, y}, "", "tensor 'x' is missing"},
           {{kNone, kScale},
            "",
            "no tensor shows rows, which the size of 'x' depends on; state it as a fact, "
            "rows=..."},
           {{kX}, "kind=scaled", "tensor 'scale' is missing"},
           {{kX, kScale}, "kind=plain", "tensor 'scale' is none of this call's"},
           {{kX}, "depth=1", "unknown dimension 'depth'; known: rows, width, window, dtype, kind"},
           {{kX}, "kind=odd", "kind is 'odd'; it must be plain or scaled"},
           {{kX}, "window=101", "window is 101; it must be from 0 to 100"},
           {{kX}, "window=-1", "window is -1; it must be from 0 to 100"},
           {{kX}, "window=3x", "window is 3x; it must be from 0 to 100"},
           {{kX}, "window=99999999999999999999", "window is 99999999999999999999; it must be from 0 to 100"},
           {{kX}, "rows=10", "tensor 'x' is [9, 128]; it must be [10, 128]"},
           {{kX}, "dtype=f16", "tensor 'x' is bf16; it must be f16"},
           {{view(DType::bf16, {9, 128}, {130, 1})},
            "",
            "x_row is 130 elements; it must be a multiple of 16 bytes, "
            "or contiguous"},
           {{view(DType::bf16, {9, 128}, {-128, 1})}, "", "x_row is -128 elements"},
           {{view(DType::bf16, {9, 128}, {kHuge, 1})}, "", "x_row is 4611686018427387904 elements"},
           {{view(DType::bf16, {9, 128}, {256, 2})}, "", "tensor 'x' is not contiguous"},
           {{kX, kNone, view(DType::f32, {9, 64}, {0, 1})}, "", "y_row is 0 elements"},
           {{kX, kNone, view(DType::f32, {9, 64}, {60, 1})}, "", "the strides of 'y' let elements overlap"}}) {
    const std::string said = refusal(halved(), given, facts);
    CHECK_MESSAGE(said.find(sentence) != std::string::npos, said);
  }
  CHECK_THROWS_AS(shown(halved(), {kX}, "window"), BadInput);
}

TEST_CASE("sizes that no tensor has are refused, and nothing overflows") {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t size : {std::int64_t{-1}, std::int64_t{4097}, kHuge, kLeast, kLeast + 1}) {
    CHECK(refusal(halved(), {view(DType::bf16, {size, 128})}) ==
          "vector_add: rows is " + std::to_string(size) + "; it must be from 1 to 4096");
    const std::string said = refusal(halved(), {view(DType::bf16, {9, size})});
    CHECK_MESSAGE(said.find("it must be [rows, 2 * width] of some width") != std::string::npos, said);
  }
  CHECK(refusal(halved(), {view(DType::bf16, {9, 0})}).find("of some width") != std::string::npos);
  CHECK(refusal(halved(), {view(DType::bf16, {0, 0})}).find("of some width") != std::string::npos);

  const auto kernel = kernel_of(R"([
    {"name": "rows", "default": 4, "range": [1, 1099511627776], "free": true},
    {"name": "width", "default": 64, "range": [8, 1099511627776]}])",
                                R"([
    {"name": "x", "dtype": "f32", "shape": ["rows"]}, {"name": "w", "dtype": "f32", "shape": ["width"]},
    {"name": "y", "dtype": "f32", "shape": ["rows", "width"], "role": "output"},
    {"name": "z", "dtype": "u8", "shape": ["rows * width", "rows"], "strides": ["z_row"], "role": "output"}])",
                                R"(["x", "w", "y", "z"])");
  const auto of = [&](std::int64_t rows, std::int64_t width) {
    return refusal(*kernel, {view(DType::f32, {rows}), view(DType::f32, {width})});
  };
  CHECK(of(1 << 10, 1 << 20) == "serves rows=1024,width=1048576");
  CHECK(of(1 << 30, 1 << 30) == "vector_add: tensor 'y' would have more than 2^40 elements");
  CHECK(of(std::int64_t{1} << 40, std::int64_t{1} << 40) ==
        "vector_add: tensor 'y' would have more than 2^40 elements");
  CHECK(of(1 << 20, 1 << 20) == "vector_add: tensor 'z' would have more than 2^40 elements");
  CHECK(of(kHuge, 8) == "vector_add: rows is 4611686018427387904; it must be from 1 to 1099511627776");

  // A launch states extents and strides of its own.
  const Problem problem = own_problem(*kernel, "rows=4,width=1048576");
  const auto family = kernel->family_interface(problem);
  Call call = kernel->default_call(problem);
  CHECK_NOTHROW(family->check_call({4}, call));
  CHECK_THROWS_WITH_AS(family->check_call({std::int64_t{1} << 40}, call),
                       "vector_add: tensor 'y' has more than 2^40 elements", BadInput);
  call.integers[1] = 0;
  CHECK_THROWS_AS(family->check_call({4}, call), BadInput);
}

TEST_CASE("an output's strides may be in any order, and let no elements overlap") {
  const auto kernel = kernel_of(kProblem, R"([
    {"name": "x", "dtype": "f32", "shape": ["rows", "width"]},
    {"name": "y", "dtype": "f32", "shape": ["rows", "width", 8], "strides": ["y_row", "y_head"], "role": "output"}])");
  const auto of = [&](std::int64_t row, std::int64_t head) {
    return refusal(*kernel, {view(DType::f32, {9, 64}), view(DType::f32, {9, 64, 8}, {row, head, 1})});
  };
  for (const auto& [row, head] : {std::pair(512, 8), {8, 72}, {8, 80}, {1024, 16}})
    CHECK(of(row, head) == "serves rows=9,width=64");
  for (const auto& [row, head] : {std::pair(508, 8), {8, 68}, {8, 8}, {4, 72}, {512, 4}})
    CHECK(of(row, head) == "vector_add: the strides of 'y' let elements overlap");
}

TEST_CASE("parts of an interleaved dimension may lie among each other, those of another one may not") {
  for (const std::string interleaved : {"", R"(, "interleaved": true)"}) {
    const std::string tensors = R"([
      {"name": "x", "dtype": "f32", "shape": ["rows", "width"]},
      {"name": "y", "dtype": "f32", "shape": [{"any": "rows")" +
                                interleaved + R"(}, "width", 8], "strides": ["y_row", "y_head"], "role": "output"}])";
    const auto kernel = kernel_of(kProblem, tensors.c_str());
    const auto of = [&](std::int64_t row, std::int64_t head) {
      return refusal(*kernel, {view(DType::f32, {9, 64}), view(DType::f32, {9, 64, 8}, {row, head, 1})});
    };
    CHECK(of(512, 8) == "serves rows=9,width=64");
    const bool overlaps = of(8, 16).find("let elements overlap") != std::string::npos;
    CHECK(overlaps == interleaved.empty());
    CHECK(of(8, 4).find("let elements overlap") != std::string::npos);
  }
}

TEST_CASE("a dimension that no tensor shows is asked for, unless it has a usual value") {
  const auto kernel = kernel_of(kProblem, R"([
    {"name": "x", "dtype": "f32", "shape": ["window"]},
    {"name": "y", "dtype": "f32", "shape": ["width"], "role": "output"}])");
  const Given given = {view(DType::f32, {7})};
  CHECK(refusal(*kernel, given) ==
        "vector_add: no tensor shows width, which the size of 'y' depends on; state it as a "
        "fact, width=...");
  CHECK(refusal(*kernel, given, "width=64") ==
        "vector_add: no tensor's shape says 'rows'; state it as a fact, rows=...");
  const ShownCall call = shown(*kernel, given, "width=64,rows=3");
  CHECK(call.problem == "rows=3,width=64,window=7");
  CHECK(call.options == "rows=3");
}

}  // namespace moetune::call_reader_test
