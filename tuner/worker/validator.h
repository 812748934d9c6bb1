// When an output counts as right, as pure rules over figures that the device made of the whole tensor
// (harness.h), or the host of a small one (host_compare.h).
//
// Stateless; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/output_check.h"

namespace moetune {

inline constexpr std::uint64_t kNoElement = ~std::uint64_t{0};

// One floating-point output x against the exact reference y. Elements where both are the same special value
// (NaN, or the same infinity) are left out of the sums; those where only one is, or they differ, are counted.
struct ErrorFigures {
  double max_error = 0;  // max|x - y|
  double largest = 0;    // max|y|
  double sum_xy = 0, sum_xx = 0, sum_yy = 0;
  std::uint64_t worst_index = 0;      // where max_error is; the lowest such
  std::uint64_t mask_mismatches = 0;  // NaN or infinite in one of the two only
  std::uint64_t first_mismatch = 0;

  // 1 - 2 sum(xy) / sum(x^2 + y^2): 0 equal, 1 unrelated; 0 where both are all zero.
  double dissimilarity() const;
};

// One output of integers against the exact reference.
struct IntegerFigures {
  std::uint64_t mismatches = 0;  // elements that differ
  std::uint64_t first_mismatch = kNoElement;
  std::int64_t actual = 0, expected = 0;  // there
  std::uint64_t unwritten = 0;            // elements that kept the poison of two runs with two patterns
  std::uint64_t first_unwritten = kNoElement;
};

// The segments of such an output that hold another multiset than the reference's.
struct SegmentFigures {
  std::uint64_t mismatches = 0;
  std::uint64_t begin = 0, end = 0;  // the elements of the first of them
  std::int64_t actual = 0,
               expected = 0;  // values that it holds more often than the reference, and less often
};

struct OutputVerdict {
  bool right = false;
  std::string reason;      // one line, where it is not
  double error_share = 0;  // of the largest error that is allowed, where one is
};

// The error that adding `terms` terms in f32, in any order, leaves in a sum near `largest`: of random terms, which add
// up to the square root of their count, each of the n additions rounds by 2^-24 of what there is so far. Candidate and
// reference may both be off by it, in opposite directions.
double summation_error(double terms, double largest);

// `name` is the output's, for the message; `baseline_error` the max error of the low-precision baseline
// against the same reference. An output whose reference is zero everywhere cannot be validated.
OutputVerdict judge(const std::string& name, const ErrorFigures& figures, double baseline_error,
                    const Tolerance& tolerance);

// OutputCheck::Kind::exact of floats: every value equals the reference's f32 value, every NaN is a NaN there.
OutputVerdict judge_exact(const std::string& name, const ErrorFigures& figures);

// Exact, of integers.
OutputVerdict judge_exact(const std::string& name, const IntegerFigures& figures);

// Judges by sets. Only unwritten elements of `elements` count.
OutputVerdict judge_sets(const std::string& name, const IntegerFigures& elements, const SegmentFigures& segments);

}  // namespace moetune
