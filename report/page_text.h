// Formats texts and numbers for all parts of a page's data. Pure functions.
#pragma once

#include <cmath>
#include <string>

#include "base/format.h"
#include "base/utf8.h"
#include "jobs/stored/stored_results.h"

namespace moetune {

// Six digits are more than any time has.
inline Document page_number(double value) {
  if (!std::isfinite(value)) return 0;
  return parse_stored(format("%.6g", value));
}

// Bounded, and UTF-8 whatever it was.
inline std::string page_text(const std::string& text, std::size_t most) {
  std::string clean = to_utf8(text.substr(0, most));
  if (text.size() > most) clean += "…";
  return clean;
}

// Names of kernels and GPUs are short; others would widen every table.
inline std::string page_name(const std::string& name, std::size_t most) {
  constexpr std::size_t kLongestName = 80;
  return page_text(name, std::min(most, kLongestName));
}

}  // namespace moetune
