// Spans of time as people write them. Pure functions.
#pragma once

#include <string>

namespace moetune {

// "90", "90s", "30m", "2h" or "7d" in seconds, above 0. Throws BadInput.
double parse_duration(const std::string& text);

}  // namespace moetune
