// Configurations as small integers, for statistics over trials: a factor is a parameter, a level one of its values.
//
// The stored texts decide what factors there are, because a cache holds configurations of earlier versions and of
// kernels that moetune does not have. Plain data; not thread-safe while it is filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moetune {

using Level = std::uint16_t;

struct Factor {
  std::string name;
  std::vector<std::string> levels;  // numbers in ascending order, then names in alphabetical order
  bool ordered = false;             // every level is a number
};

struct Factors {
  std::vector<Factor> factors;
  std::vector<std::optional<std::vector<Level>>> rows;  // of each text; nullopt for one that is left out
};

// More factors, or more levels of one, than any space has: a text past them is left out.
inline constexpr std::size_t kMostFactors = 48, kMostLevels = 256;

// The texts (`a=1,b=tma`) by the names that most of them have; those with other names are left out.
Factors factors_of(const std::vector<std::string>& configs);

}  // namespace moetune
