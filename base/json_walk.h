// A walk through a JSON text that tells where its keys and values stand, which the library's events do not. It takes a
// text that is broken as far as it goes. A pure function; thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// An object or array that is open, and where in it the walk is.
struct JsonStep {
  bool is_object = false, key_next = false;
  std::string key;        // of an object
  std::size_t index = 0;  // of an array
};
using JsonPath = std::vector<JsonStep>;

// A key of the innermost object of the path, or a value there; a number or a text is whole, of an object or an array
// it is the bracket.
struct JsonToken {
  bool is_key = false;
  std::string_view text;
  std::size_t at = 0;
};

// Visits keys and values in order until `visit` returns false.
void walk_json(std::string_view text, const std::function<bool(const JsonPath& path, const JsonToken& token)>& visit);

}  // namespace moetune
