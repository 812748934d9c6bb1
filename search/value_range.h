// Bounds what an expression can be for all values of its names between two bounds: an interval, which may be wider
// than what it really takes. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <limits>

#include "search/program.h"

namespace moetune {

struct ValueRange {
  std::int64_t low = 0, high = 0;
  bool undefined = false;  // it may have no value (kUndefined)

  static ValueRange of(std::int64_t value) {
    return value == kUndefined ? ValueRange{1, 0, true} : ValueRange{value, value};
  }
  static ValueRange anything() {
    return {-std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max(), true};
  }

  bool is_empty() const { return low > high; }  // it has no value
  bool is_zero() const { return low == 0 && high == 0; }
  bool is_not_zero() const { return !is_empty() && (low > 0 || high < 0); }
  // As Program::holds: for all values, or for none.
  bool always_holds() const { return !undefined && is_not_zero(); }
  bool never_holds() const { return is_empty() || is_zero(); }
};

// Program::run() for all slots within their ranges. Gives up, and returns anything, where too many conditions are open.
ValueRange run_within(const Program& program, const ValueRange* slots);

}  // namespace moetune
