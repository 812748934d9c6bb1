// moe_dispatch's host half: rules, calls, inputs, and the answer in float64 on examples worked out by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "include/moetune.h"
#include "kernels/moe/moe_dispatch_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace {

using namespace moetune;
using Values = std::vector<double>;

const Kernel& dispatch_kernel() { return find_kernel("moe_dispatch"); }

Problem dispatch_problem(const std::string& text) { return checked_problem("moe_dispatch", text); }

const Values& values_of(const std::vector<Buffer>& buffers, HostTensors& values, const std::string& name) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return values[name] = host_values(buffers[i], 1, fill_stream(i, 0));
  }
  FAIL("no buffer " << name);
  return values[name];
}

// Two tokens of 8 values with two experts each: places 0 and 3 of four are the first token's.
Values worked_example(const std::string& text, const char* output) {
  const Problem problem =
      dispatch_problem("tokens=2,hidden=8,experts=8,top_k=2,align=1" + (text.empty() ? "" : "," + text));
  Call call = dispatch_kernel().default_call(problem);
  call.integers[kMoePlaces] = 5;
  HostTensors inputs;
  inputs["x"] = {448, -224, 112, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 7};
  inputs["sorted"] = {1, 2, 3, 0, 4};  // the last is padding
  inputs["inverse"] = {3, 0, 1, 2};
  return answer_on_cpu(problem, call, inputs).at(output);
}

Values row_of(const Values& rows, std::size_t place) {
  const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(place * 8);
  return {begin, begin + 8};
}

}  // namespace

TEST_CASE("moe_dispatch: rules across dimensions") {
  CHECK_NOTHROW(dispatch_problem("out=e4m3,scale=token,scale_layout=column"));
  for (const char* wrong : {"hidden=100", "top_k=16,experts=8", "align=24", "scale=token", "scale_layout=column"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(dispatch_problem(wrong), BadInput);
  }
}

TEST_CASE("moe_dispatch: rows come in the order of the places, and padding is zero") {
  const Values rows = worked_example("", "rows");
  REQUIRE(rows.size() == 40);
  const Values first = {448, -224, 112, 1, 0, 0, 0, 0}, second = {1, 2, 3, 4, 5, 6, 7, 7};
  CHECK(row_of(rows, 0) == first);
  CHECK(row_of(rows, 1) == second);
  CHECK(row_of(rows, 2) == second);
  CHECK(row_of(rows, 3) == first);
  CHECK(row_of(rows, 4) == Values(8, 0));
}

TEST_CASE("moe_dispatch: padding that is not asked for stays as it is") {
  const Values rows = worked_example("padding=none", "rows");
  CHECK(rows[0] == 448);
  CHECK(std::isnan(rows[32]));
  CHECK(std::isnan(worked_example("out=e4m3,padding=none", "scales")[4]));
}

TEST_CASE("moe_dispatch: e4m3 is a row over its scale, which makes the largest value 448") {
  const Values rows = worked_example("out=e4m3,scale=token", "rows");
  CHECK(row_of(rows, 0) == Values{448, -224, 112, 1, 0, 0, 0, 0});
  // Times 64: 192 and 320 have codes of their own, 448 is the largest.
  CHECK(row_of(rows, 1) == Values{64, 128, 192, 256, 320, 384, 448, 448});
  CHECK(row_of(rows, 4) == Values(8, 0));
  CHECK(worked_example("out=e4m3,scale=token", "scales") == Values{1, 1.0 / 64, 1.0 / 64, 1, 1});
}

TEST_CASE("moe_dispatch: a column of scales is padded to 16 bytes") {
  const Values scales = worked_example("out=e4m3,scale_layout=column", "scales");
  CHECK(scales == Values{1, 1.0 / 64, 1.0 / 64, 1, 1, 1, 1, 1});
  const MoeDispatchShape shape(dispatch_problem("hidden=2880,out=e4m3,scale_layout=column"));
  CHECK(shape.groups() == 23);  // the last of 64
  CHECK(shape.scale_elements(5) == 23 * 8);
  CHECK(shape.scale_index(3, 2, 5) == 19);
  CHECK(MoeDispatchShape(dispatch_problem("hidden=2880,out=e4m3")).scale_index(3, 2, 5) == 71);
}

TEST_CASE("moe_dispatch: each group has its own scale, tiny ones count as zero") {
  const Problem problem = dispatch_problem("tokens=1,hidden=264,experts=8,top_k=1,align=1,out=e4m3");
  HostTensors inputs;
  inputs["x"] = Values(264, 0);
  inputs["x"][5] = 7;
  inputs["x"][130] = 0x1p-110;
  inputs["x"][260] = -896;
  inputs["sorted"] = {0};
  inputs["inverse"] = {0};
  const HostTensors out = answer_on_cpu(problem, inputs);
  CHECK(out.at("scales") == Values{1.0 / 64, 1, 2});
  CHECK(out.at("rows")[5] == 448);
  CHECK(out.at("rows")[130] == 0);
  CHECK(out.at("rows")[260] == -448);
}

TEST_CASE("moe_dispatch: the permutations of the inputs belong together") {
  for (const char* text : {"tokens=50,experts=16,top_k=4,align=8,skew=zipf,hidden=64",
                           "tokens=40,experts=8,top_k=2,align=4,skew=one,capacity=150,hidden=64"}) {
    CAPTURE(text);
    const Problem problem = dispatch_problem(text);
    const MoeDispatchShape shape(problem);
    const std::vector<Buffer> buffers = dispatch_kernel().buffers(problem, 7);
    HostTensors values;
    const Values sorted = values_of(buffers, values, "sorted"), inverse = values_of(buffers, values, "inverse");
    REQUIRE(inverse.size() == static_cast<std::size_t>(shape.slots()));
    std::size_t placed = 0, padding = 0;
    for (std::size_t slot = 0; slot < inverse.size(); ++slot) {
      if (inverse[slot] < 0) continue;
      CHECK(sorted.at(static_cast<std::size_t>(inverse[slot])) == static_cast<double>(slot));
      ++placed;
    }
    for (const double slot : sorted) padding += slot == static_cast<double>(shape.slots());
    CHECK(placed + padding == sorted.size());
    CHECK((placed < inverse.size()) == (shape.sizes.capacity > 0));
  }
}

TEST_CASE("moe_dispatch: fewer places than the routing needs drop what lies behind them") {
  const Problem problem = dispatch_problem("tokens=9,experts=8,top_k=2,align=4,hidden=64");
  Call call = dispatch_kernel().default_call(problem);
  call.integers[kMoePlaces] = 6;
  const std::vector<Buffer> buffers = dispatch_kernel().buffers(problem, call, 7);
  CHECK_NOTHROW(check_buffers(buffers));
  HostTensors values;
  for (const double place : values_of(buffers, values, "inverse")) CHECK(place < 6);
}

TEST_CASE("moe_dispatch: tensors of a server become extents and a call, and wrong ones are named") {
  const auto family =
      dispatch_kernel().family_interface(dispatch_problem("hidden=256,top_k=2,out=e4m3,scale_layout=column"));
  TensorView x{DType::bf16, {10, 256}, {320, 1}}, sorted{DType::i32, {30}, {1}}, inverse{DType::i32, {10, 2}, {2, 1}},
      rows{DType::e4m3, {30, 256}, {256, 1}}, scales{DType::f32, {2, 32}, {32, 1}};
  std::vector<const TensorView*> tensors = {&x, &sorted, &inverse, &rows, &scales};
  Extents extents;
  Call call;
  family->bind(tensors, "", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[kMoeRow] == 320);
  CHECK(call.integers[kMoePlaces] == 30);
  const auto refused = [&](const char* why, const char* options = "") {
    CHECK_THROWS_WITH_AS(family->bind(tensors, options, extents, call), doctest::Contains(why), BadInput);
  };
  refused("there are none", "scale=2");
  scales.shape[1] = scales.strides[0] = 30;
  refused("'scales' has 60 elements; it must have 64");
  scales.shape[1] = scales.strides[0] = 32;
  x.strides[0] = 257;
  refused("x_row=257 must be a multiple of 8");
  x.strides[0] = 320;
  rows.dtype = DType::bf16;
  refused("'rows' is bf16; it must be e4m3");
  rows.dtype = DType::e4m3;
  inverse.shape[1] = inverse.strides[0] = 3;
  refused("'inverse' has 30 elements; it must have 20");
}

TEST_CASE("moe_dispatch: no two configurations launch the same code in the same way, and there are hundreds") {
  for (const char* text :
       {"tokens=64", "tokens=4096,hidden=2880,top_k=4,experts=32,out=e4m3", "tokens=1000,out=e4m3,scale=token"})
    check_launches_differ(dispatch_problem(text), 400);
}

TEST_CASE("moe_dispatch: the C interface counts tensors and fields as the family does") {
  check_c_interface(dispatch_problem("out=e4m3"),
                    {.tensors = {{MOETUNE_MOE_DISPATCH_X, "x"},
                                 {MOETUNE_MOE_DISPATCH_SORTED, "sorted"},
                                 {MOETUNE_MOE_DISPATCH_INVERSE, "inverse"},
                                 {MOETUNE_MOE_DISPATCH_ROWS, "rows"},
                                 {MOETUNE_MOE_DISPATCH_SCALES, "scales"}},
                     .integers = {{MOETUNE_MOE_DISPATCH_X_ROW, "x_row"}, {MOETUNE_MOE_DISPATCH_PLACES, "places"}},
                     .reals = {}});
}
