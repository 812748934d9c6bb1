// One value of a parameter or a problem dimension: an integer, or a name out of a fixed list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moetune {

struct Value {
  std::int64_t number = 0;  // the integer; for a named value, its position in the list of names
  std::string name;         // empty for an integer

  static Value integer(std::int64_t number) { return {number, {}}; }
  static Value named(std::string_view name, std::int64_t position) { return {position, std::string(name)}; }

  bool is_named() const { return !name.empty(); }
  std::string text() const { return is_named() ? name : std::to_string(number); }
  bool operator==(const Value&) const = default;
};

}  // namespace moetune
