// Integer arithmetic that the standard library lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moetune {

// a / b rounded up, for a >= 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How many a number's last letters stand for: 8k is 8192, 2m two times 2^20. nullopt for letters that stand for none.
constexpr std::optional<std::int64_t> unit_of_suffix(std::string_view suffix) {
  if (suffix.empty()) return 1;
  if (suffix == "k" || suffix == "K") return 1024;
  if (suffix == "m" || suffix == "M") return 1024 * 1024;
  return std::nullopt;
}

}  // namespace moetune
