// Spans of time as people write them, by one rule everywhere. Pure functions.
#pragma once

#include <string>

namespace moetune {

// The rule in words, for help and errors.
inline constexpr const char* kSpanRule = "90, 30s, 5m or 1h30m";
inline constexpr double kLongestSpan = 366.0 * 86400;  // seconds

// Seconds of "90", "30s", "1.5h", "1h30m" or "7d": a number alone is seconds; of several parts each has its unit (d, h,
// m, s), the larger first. At most a year, and above 0 unless it may be that. Throws BadInput.
double parse_duration(const std::string& text, bool may_be_zero = false);

// The same span in whole seconds, as parse_duration() reads it: "30s", "1h30m".
std::string span_text(double seconds);

}  // namespace moetune
