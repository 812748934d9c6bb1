// The harness's comparisons of values (tuner/worker/harness.h) on the host: the judge of small tensors in tests, and of
// the scripted driver's. Pure functions; thread-safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "tuner/worker/host_compare.h"

namespace moetune::testing {

inline std::int64_t elements_of(DType type, HostBytes bytes) {
  return static_cast<std::int64_t>(bytes.size()) / dtype_bytes(type);
}

inline std::int64_t poison_of(DType type, std::uint8_t byte) {
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(dtype_bytes(type)), byte);
  return load_integer(type, bytes.data(), 0);
}

// x, of a floating-point type, against the f32 tensor y.
inline ErrorFigures compare_on_host(DType type, HostBytes x, HostBytes y) {
  ErrorFigures sum{.worst_index = kNoElement, .first_mismatch = kNoElement};
  for (std::int64_t i = 0; i < elements_of(type, x); ++i) {
    const double a = load_element(type, x.data(), i), b = load_element(exact_dtype(type), y.data(), i);
    if (std::isfinite(a) && std::isfinite(b)) {
      if (std::abs(a - b) > sum.max_error) {
        sum.max_error = std::abs(a - b);
        sum.worst_index = static_cast<std::uint64_t>(i);
      }
      sum.largest = std::max(sum.largest, std::abs(b));
      sum.sum_xy += a * b;
      sum.sum_xx += a * a;
      sum.sum_yy += b * b;
    } else if (!(std::isnan(a) && std::isnan(b)) && a != b) {
      if (sum.mask_mismatches++ == 0) sum.first_mismatch = static_cast<std::uint64_t>(i);
    }
  }
  return sum;
}

// As another run left the tensor that began with `earlier_byte` everywhere, as this one did with `byte`.
struct EarlierRun {
  HostBytes bytes;
  std::uint8_t earlier_byte = 0, byte = 0;
};

// x against y, both of an integer type.
inline IntegerFigures compare_integers_on_host(DType type, HostBytes x, HostBytes y,
                                               const std::optional<EarlierRun>& earlier = std::nullopt) {
  IntegerFigures figures;
  const std::int64_t poison = earlier ? poison_of(type, earlier->byte) : 0;
  const std::int64_t earlier_poison = earlier ? poison_of(type, earlier->earlier_byte) : 0;
  for (std::int64_t i = 0; i < elements_of(type, x); ++i) {
    const std::int64_t actual = load_integer(type, x.data(), i), expected = load_integer(type, y.data(), i);
    if (actual != expected && figures.mismatches++ == 0) {
      figures.first_mismatch = static_cast<std::uint64_t>(i);
      figures.actual = actual;
      figures.expected = expected;
    }
    if (earlier && actual == poison && load_integer(type, earlier->bytes.data(), i) == earlier_poison) {
      if (figures.unwritten++ == 0) figures.first_unwritten = static_cast<std::uint64_t>(i);
    }
  }
  return figures;
}

}  // namespace moetune::testing
