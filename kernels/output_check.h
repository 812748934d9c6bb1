// How an output of a kernel is compared with the exact reference. Plain data; the rules themselves are in
// tuner/worker/validator.h.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

// When a floating-point output counts as right: both rules, over the whole tensor.
struct Tolerance {
  double dissimilarity = 1e-4;   // 1 - 2*sum(xy)/sum(x^2+y^2) at most this
  double baseline_factor = 2.0;  // max|x-y| at most this times the low-precision baseline's own error ...
  double terms = 1;              // ... plus what adding so many terms in f32 may err, in any order (summation_error)
};

struct OutputCheck {
  enum class Kind {
    tolerance,        // floating-point outputs
    exact,            // every element equals the reference's; of a float, the reference's value in f32
    set_per_segment,  // integers: each segment holds the reference's values, as often, in any order
  };
  Kind kind = Kind::tolerance;
  Tolerance tolerance;
  // The segments of a set: those between neighbours of an i32 buffer of ascending offsets (one more than
  // there are segments), named here and taken from the reference where it is an output; or, unnamed, all of
  // `segment_length` elements. Elements before the first offset and those behind the last are a segment each.
  std::string segments;
  std::int64_t segment_length = 0;

  static OutputCheck within(Tolerance tolerance) { return {Kind::tolerance, tolerance, {}, 0}; }
  static OutputCheck exact() { return {Kind::exact, {}, {}, 0}; }
  static OutputCheck sets_between(std::string offsets) { return {Kind::set_per_segment, {}, offsets, 0}; }
  static OutputCheck sets_of(std::int64_t length) { return {Kind::set_per_segment, {}, {}, length}; }
};

}  // namespace moetune
