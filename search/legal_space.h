// The legal configurations of one space under one problem and device, stored as domain positions: one row of
// 16-bit positions a configuration, sorted, so that finding a row is a binary search. Strategies work on
// ConfigIds (row numbers), which are stable for one space, problem and device.
//
// Immutable once built; safe to share between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/assignment.h"
#include "search/parameter.h"
#include "search/random.h"

namespace moetune {

using ConfigId = std::uint32_t;
using Position = std::uint16_t;  // index into a parameter's domain

class LegalSpace {
 public:
  // `rows` holds one position a parameter and row, in lexicographic order without duplicates. Throws BadInput
  // where they are not, or where a position lies outside its domain.
  LegalSpace(std::vector<Parameter> parameters, std::vector<Position> rows);

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  double cartesian_size() const;  // product of the domain sizes

  std::span<const Position> point(ConfigId id) const;
  Config config(ConfigId id) const;
  std::optional<ConfigId> find(std::span<const Position> point) const;
  std::optional<ConfigId> find(
      const Config& config) const;  // in any order of names; nullopt for a missing or extra one
  std::optional<ConfigId> find_text(std::string_view text) const;  // by Config::text
  // The positions of a Config::text in the domains, whether it is legal or not; nullopt where a name or a
  // value is none of theirs.
  std::optional<std::vector<Position>> point_of(std::string_view text) const;
  // A legal configuration that differs from `point` in the fewest parameters, drawn where several do. Looks
  // at every row. The space must not be empty.
  ConfigId nearest(std::span<const Position> point, Random& random) const;

  // The legal configurations that differ in one parameter, by any amount: by parameter, then by value.
  std::vector<ConfigId> neighbours(ConfigId id) const;
  bool are_neighbours(ConfigId a, ConfigId b) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::vector<Position>> ascending_;  // by parameter: the positions of an integer domain by value
  std::vector<Position> rows_;
  std::size_t count_ = 0;
};

}  // namespace moetune
