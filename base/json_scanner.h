// Looks at JSON texts a character at a time, and makes nothing of them. Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace moetune {

// Bounds on a JSON text's depth and size. For a text that is no JSON, at least those of the part before its first
// error.
struct JsonExtent {
  int depth = 0;
  std::size_t values = 0;  // at most: brackets, commas and colons
};

JsonExtent json_extent(std::string_view text);

// Whether parse_json() (base/json.h) would give an object.
bool is_json_object(std::string_view text);

}  // namespace moetune
