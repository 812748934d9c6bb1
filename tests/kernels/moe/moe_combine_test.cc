// moe_combine's host half: rules, calls, inputs, and the answer in float64 on an example worked out by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "include/moetune.h"
#include "kernels/moe/moe_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace {

using namespace moetune;
using Values = std::vector<double>;

const Kernel& combine_kernel() { return find_kernel("moe_combine"); }

Problem combine_problem(const std::string& text) { return checked_problem("moe_combine", text); }

Values eight(double value) { return Values(8, value); }

Values joined(std::initializer_list<Values> rows) {
  Values all;
  for (const Values& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

TEST_CASE("moe_combine: a token is the weighted sum of its rows; dropped slots count nothing") {
  const Problem problem = combine_problem("tokens=3,hidden=8,experts=8,top_k=2,align=1");
  HostTensors inputs;
  const double nan = std::nan("");
  inputs["rows"] = joined({eight(1), eight(10), eight(nan), eight(100), eight(nan), eight(nan)});
  inputs["inverse"] = {0, 3, -1, 1, -1, -1};
  inputs["weights"] = {0.5, 0.25, nan, 2, 1, 1};
  Call call = combine_kernel().default_call(problem);
  CHECK(answer_on_cpu(problem, call, inputs).at("out") == joined({eight(25.5), eight(20), eight(0)}));
  call.integers[kMoeRow] = 16;
  const Values apart = answer_on_cpu(problem, call, inputs).at("out");
  REQUIRE(apart.size() == 40);
  CHECK(apart[7] == 25.5);
  CHECK(std::isnan(apart[8]));
  CHECK(apart[16] == 20);
}

TEST_CASE("moe_combine: rules across dimensions, and of calls") {
  for (const char* wrong : {"hidden=12", "top_k=9,experts=8", "align=3"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(combine_problem(wrong), BadInput);
  }
  const Problem problem = combine_problem("hidden=64");
  Call call = combine_kernel().default_call(problem);
  CHECK_NOTHROW(combine_kernel().check_call(problem, call));
  call.integers[kMoeRow] = 60;
  CHECK_THROWS_AS(combine_kernel().check_call(problem, call), BadInput);
  call = combine_kernel().default_call(problem);
  call.integers[kMoePlaces] = 0;
  CHECK_THROWS_AS(combine_kernel().check_call(problem, call), BadInput);
}

TEST_CASE("moe_combine: rows that no slot points to are poisoned, and only those") {
  const Problem problem = combine_problem("tokens=20,hidden=16,experts=8,top_k=3,align=16,capacity=120,skew=zipf");
  const std::vector<Buffer> buffers = combine_kernel().buffers(problem, 3);
  CHECK_NOTHROW(check_buffers(buffers));
  const Values rows = host_values(buffers[0], 3, fill_stream(0, 0));
  std::vector<bool> used(rows.size() / 16, false);
  std::size_t dropped = 0;
  for (const double place : host_values(buffers[1], 3, fill_stream(1, 0))) {
    dropped += place < 0;
    if (place >= 0) used.at(static_cast<std::size_t>(place)) = true;
  }
  CHECK(dropped > 0);
  for (std::size_t i = 0; i < rows.size(); ++i) REQUIRE(std::isnan(rows[i]) == !used[i / 16]);
}

TEST_CASE("moe_combine: weights add up to nearly one") {
  const std::vector<Buffer> buffers = combine_kernel().buffers(combine_problem("tokens=500,top_k=8,hidden=8"), 3);
  double sum = 0;
  for (const double weight : host_values(buffers[2], 3, fill_stream(2, 0))) sum += weight / 500;
  CHECK(sum == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("moe_combine: bytes count once") {
  const Cost cost = combine_kernel().cost(combine_problem("tokens=100,top_k=4,hidden=2880,experts=32"));
  CHECK(cost.read_bytes == 100 * 4 * (2880 * 2 + 8));
  CHECK(cost.written_bytes == 100 * 2880 * 2);
}

TEST_CASE("moe_combine: tensors of a server become extents and a call, and wrong ones are named") {
  const auto family = combine_kernel().family_interface(combine_problem("hidden=256,top_k=2"));
  TensorView rows{DType::bf16, {40, 256}, {256, 1}}, inverse{DType::i32, {10, 2}, {2, 1}},
      weights{DType::f32, {10, 2}, {2, 1}}, out{DType::bf16, {10, 256}, {512, 1}};
  std::vector<const TensorView*> tensors = {&rows, &inverse, &weights, &out};
  Extents extents;
  Call call;
  family->bind(tensors, "", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[kMoeRow] == 512);
  CHECK(call.integers[kMoePlaces] == 40);
  const auto refused = [&](const char* why, const char* options = "") {
    CHECK_THROWS_WITH_AS(family->bind(tensors, options, extents, call), doctest::Contains(why), BadInput);
  };
  refused("there are none", "scale=2");
  weights.dtype = DType::bf16;
  refused("'weights' is bf16; it must be f32");
  weights.dtype = DType::f32;
  rows.shape[1] = 128;
  refused("'rows' must be [places, 256]");
  rows.shape[1] = 256;
  rows.strides[0] = 512;
  refused("'rows'");
  rows.strides[0] = 256;
  inverse.shape[0] = 9;
  refused("'inverse' has 18 elements; it must have 20");
}

TEST_CASE("moe_combine: no two configurations launch the same code in the same way, and there are hundreds") {
  for (const char* text : {"tokens=64", "tokens=4096,hidden=2880,top_k=4,experts=32", "tokens=7,hidden=4096,top_k=2"})
    check_launches_differ(combine_problem(text), 400);
}

TEST_CASE("moe_combine: the C interface counts tensors and fields as the family does") {
  check_c_interface(combine_problem(""),
                    {.tensors = {{MOETUNE_MOE_COMBINE_ROWS, "rows"},
                                 {MOETUNE_MOE_COMBINE_INVERSE, "inverse"},
                                 {MOETUNE_MOE_COMBINE_WEIGHTS, "weights"},
                                 {MOETUNE_MOE_COMBINE_OUT, "out"}},
                     .integers = {{MOETUNE_MOE_COMBINE_OUT_ROW, "out_row"}, {MOETUNE_MOE_COMBINE_PLACES, "places"}},
                     .reals = {}});
}
