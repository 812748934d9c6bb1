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
    sum.largest = std::max(sum.largest, std::abs(y[i]));
    if (std::abs(x[i] - y[i]) > sum.max_error) {
      sum.max_error = std::abs(x[i] - y[i]);
      sum.worst_index = i;
    }
  }
  return sum;
}

const Tolerance kTolerance{.dissimilarity = 1e-4, .baseline_factor = 2};

OutputVerdict judge_within(const ErrorFigures& sums, double baseline_error = 0.01) {
  return judge("y", sums, baseline_error, kTolerance);
}

}  // namespace

TEST_CASE("an equal output is right, and its dissimilarity is zero") {
  const ErrorFigures equal = figures({1, -2, 3}, {1, -2, 3});
  CHECK(equal.dissimilarity() == doctest::Approx(0));
  CHECK(judge_within(equal, 0).right);
}

TEST_CASE("dissimilarity is one for unrelated values and two for the opposite") {
  CHECK(figures({0, 0}, {1, 2}).dissimilarity() == 1);
  CHECK(figures({1, 0}, {0, 1}).dissimilarity() == 1);
  CHECK(figures({-1, -2}, {1, 2}).dissimilarity() == doctest::Approx(2));
}

TEST_CASE("an all-zero output fails, and so does a reference that cannot tell") {
  const OutputVerdict zero = judge_within(figures({0, 0}, {1e-9, 1e-9}));
  CHECK_FALSE(zero.right);
  CHECK(zero.reason == "output 'y' is zero everywhere");
  const OutputVerdict unknown = judge_within(figures({0, 0}, {0, 0}));
  CHECK_FALSE(unknown.right);
  CHECK(unknown.reason.find("reference is zero everywhere") != std::string::npos);
}

TEST_CASE("one element past twice the baseline's error fails though the whole is similar") {
  std::vector<double> y(100'000, 1.0), x = y;
  x[777] = 1.021;
  const ErrorFigures one_off = figures(x, y);
  REQUIRE(one_off.dissimilarity() < kTolerance.dissimilarity);
  CHECK(judge_within(one_off, 0.011).right);
  CHECK(judge_within(one_off, 0.021).error_share == doctest::Approx(0.5));
  const OutputVerdict verdict = judge_within(one_off, 0.01);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("at 777") != std::string::npos);
}

TEST_CASE("many small errors fail though none is past the baseline's error") {
  const OutputVerdict verdict = judge_within(figures({1.015, 0.985, 1.015, 0.985}, {1, 1, 1, 1}), 0.01);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("dissimilarity") != std::string::npos);
}

TEST_CASE("an output that the baseline gets exactly right may be off by a rounding") {
  CHECK(judge_within(figures({1 + 5e-8, 1}, {1, 1}), 0).right);
  CHECK_FALSE(judge_within(figures({1 + 5e-6, 1}, {1, 1}), 0).right);
}

TEST_CASE("what a sum may be off by grows with its length and its terms") {
  // A product of 4096 x 4096 matrices of standard normals: sums near 64, the largest near 350. Two ways of adding 4096
  // terms in f32 were 0.00113 apart on a GPU.
  Tolerance tolerance = kTolerance;
  tolerance.terms = 4096;
  const auto judge_sum = [&](double error, double scale) {
    std::vector<double> y(1000, 64 * scale), x = y;
    y[5] = 350 * scale;
    x[5] = (350 + error) * scale;
    return judge("c", figures(x, y), 0, tolerance);
  };
  CHECK(judge_sum(0.00113, 1).right);
  CHECK(judge_sum(0.00113, 1e4).right);
  CHECK(judge_sum(0.00113, 1e-4).right);
  const OutputVerdict wrong = judge_sum(0.02, 1);
  CHECK_FALSE(wrong.right);
  CHECK(wrong.reason.find("a sum of 4.1e+03 terms 0.00267") != std::string::npos);
  tolerance.terms = 16;
  CHECK_FALSE(judge_sum(0.00113, 1).right);
}

TEST_CASE("masks of NaN and infinity that do not agree fail before anything else") {
  ErrorFigures sums = figures({1, 2}, {1, 2});
  sums.mask_mismatches = 3;
  sums.first_mismatch = 41;
  const OutputVerdict verdict = judge_within(sums);
  CHECK_FALSE(verdict.right);
  CHECK(verdict.reason.find("in 3 elements, first at 41") != std::string::npos);
}

TEST_CASE("sums that overflowed fail instead of passing as not greater") {
  ErrorFigures sums = figures({1, 2}, {1, 2});
  sums.sum_xy = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(judge_within(sums).right);
  sums = figures({1, 2}, {1, 2});
  sums.max_error = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(judge_within(sums).right);
}

TEST_CASE("an exact output of floats may differ in no element, and be zero") {
  CHECK(judge_exact("y", figures({1, 0}, {1, 0})).right);
  CHECK(judge_exact("y", figures({0, 0}, {0, 0})).right);
  const OutputVerdict off = judge_exact("y", figures({1, 1 + 1e-7}, {1, 1}));
  CHECK_FALSE(off.right);
  CHECK(off.reason.find("worst element 1 is off by 1e-07") != std::string::npos);
  ErrorFigures masks = figures({1}, {1});
  masks.mask_mismatches = 1;
  CHECK_FALSE(judge_exact("y", masks).right);
}

TEST_CASE("integers are right if none differs, and what was never written is said first") {
  CHECK(judge_exact("ids", IntegerFigures{}).right);
  const OutputVerdict off = judge_exact("ids", {.mismatches = 2, .first_mismatch = 7, .actual = -1, .expected = 5});
  CHECK_FALSE(off.right);
  CHECK(off.reason == "output 'ids' differs from the reference in 2 elements, first at 7: -1 instead of 5");
  const IntegerFigures unwritten{.mismatches = 2, .first_mismatch = 7, .unwritten = 1, .first_unwritten = 9};
  for (const OutputVerdict& verdict : {judge_exact("ids", unwritten), judge_sets("ids", unwritten, {})}) {
    CHECK_FALSE(verdict.right);
    CHECK(verdict.reason == "output 'ids' has 1 elements that were never written, first at 9");
  }
}

TEST_CASE("sets are right whatever differs in place, unless a segment holds something else") {
  const IntegerFigures swapped{.mismatches = 2, .first_mismatch = 7};
  CHECK(judge_sets("ids", swapped, {}).right);
  const OutputVerdict across = judge_sets("ids", swapped, {2, 4, 8, 30, 20});
  CHECK_FALSE(across.right);
  CHECK(across.reason ==
        "output 'ids' holds other values than the reference in 2 segments, first in elements 4 to 7: 30 too "
        "often, 20 too seldom");
}

}  // namespace moetune
