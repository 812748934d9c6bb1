// The legal configurations of one space under one problem and device, stored as domain positions: one row of
// bytes a configuration. Strategies work on ConfigIds (row numbers), which are stable for one space,
// problem and device.
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

namespace moetune {

using ConfigId = std::uint32_t;
using Position = std::uint16_t;  // index into a parameter's domain

enum class Neighbourhood {
  adjacent,  // one parameter differs: by one step in an integer domain, to any other value of a named one
  hamming,   // one parameter differs, by any amount
};

class LegalSpace {
 public:
  // `rows` holds size()*parameters.size() positions in lexicographic order without duplicates.
  LegalSpace(std::vector<Parameter> parameters, std::vector<Position> rows);

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  double cartesian_size() const;  // product of the domain sizes

  std::span<const Position> point(ConfigId id) const;
  Config config(ConfigId id) const;
  std::optional<ConfigId> find(std::span<const Position> point) const;
  std::optional<ConfigId> find(const Config& config) const;
  std::optional<ConfigId> find(std::string_view canonical_text) const;  // Config::text of a row of this space

  // Legal neighbours in a fixed order.
  std::vector<ConfigId> neighbours(ConfigId id, Neighbourhood kind) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<Position> rows_;
  std::size_t count_ = 0;
};

}  // namespace moetune
