#include "tuner/worker/validator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace moetune {
namespace {

// The sums of x against y as the device makes them.
ErrorFigures figures(const std::vector<double>& x, const std::vector<double>& y) {
  ErrorFigures sum;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum.sum_xy += x[i] * y[i];
    sum.sum_xx += x[i] * x[i];
    sum.sum_yy += y[i] * y[i];
    if (std::abs(x[i] - y[i]) > sum.max_error) {
      sum.max_error = std::abs(x[i] - y[i]);
      sum.worst_index = i;
    }
  }
  return sum;
}

const Tolerance kTolerance{.dissimilarity = 1e-4, .baseline_factor = 2, .absolute_floor = 1e-6};

Verdict judge_bf16(const ErrorFigures& sums, double baseline_error = 0.01) {
  return judge("y", DType::bf16, sums, baseline_error, kTolerance);
}

}  // namespace

TEST_CASE("an equal output is right, and its dissimilarity is zero") {
  const ErrorFigures equal = figures({1, -2, 3}, {1, -2, 3});
  CHECK(equal.dissimilarity() == doctest::Approx(0));
  CHECK(judge_bf16(equal, 0).right);
}

TEST_CASE("dissimilarity is one for unrelated values and two for the opposite") {
  CHECK(figures({0, 0}, {1, 2}).dissimilarity() == 1);
  CHECK(figures({1, 0}, {0, 1}).dissimilarity() == 1);
  CHECK(figures({-1, -2}, {1, 2}).dissimilarity() == doctest::Approx(2));
}

TEST_CASE("an all-zero output fails, and so does a reference that cannot tell") {
  const Verdict zero = judge_bf16(figures({0, 0}, {1e-9, 1e-9}));
  CHECK_FALSE(zero.right);
  CHECK(zero.reason == "output 'y' is zero everywhere");
  const Verdict unknown = judge_bf16(figures({0, 0}, {0, 0}));
  CHECK_FALSE(unknown.right);
  CHECK(unknown.reason.find("reference is zero everywhere") != std::string::npos);
  CHECK(judge("counts", DType::i32, figures({0, 0}, {0, 0}), 0, kTolerance).right);
}

TEST_CASE("one element past twice the baseline's error fails though the whole is similar") {
  std::vector<double> y(100'000, 1.0), x = y;
  x[777] = 1.021;
  const ErrorFigures one_off = figures(x, y);
  REQUIRE(one_off.dissimilarity() < kTolerance.dissimilarity);
  CHECK(judge_bf16(one_off, 0.011).right);
  const Verdict verdict = judge_bf16(one_off, 0.01);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("at 777") != std::string::npos);
}

TEST_CASE("many small errors fail though none is past the baseline's error") {
  const Verdict verdict = judge_bf16(figures({1.015, 0.985, 1.015, 0.985}, {1, 1, 1, 1}), 0.01);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("dissimilarity") != std::string::npos);
}

TEST_CASE("the floor lets an output differ that the baseline gets exactly right") {
  CHECK(judge_bf16(figures({1 + 5e-7, 1}, {1, 1}), 0).right);
  CHECK_FALSE(judge_bf16(figures({1 + 5e-6, 1}, {1, 1}), 0).right);
}

TEST_CASE("masks of NaN and infinity that do not agree fail before anything else") {
  ErrorFigures sums = figures({1, 2}, {1, 2});
  sums.mask_mismatches = 3;
  sums.first_mismatch = 41;
  const Verdict verdict = judge_bf16(sums);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("in 3 elements, first at 41") != std::string::npos);
}

TEST_CASE("sums that overflowed fail instead of passing as not greater") {
  ErrorFigures sums = figures({1, 2}, {1, 2});
  sums.sum_xy = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(judge_bf16(sums).right);
  sums = figures({1, 2}, {1, 2});
  sums.max_error = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(judge_bf16(sums).right);
}

}  // namespace moetune
