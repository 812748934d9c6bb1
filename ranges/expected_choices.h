// What is expected to be the fastest between the cells of a range table, where nobody measured: a choice for each point
// of a grid, even and uneven work apart. A model of the measured times chose them (ranges/time_model.h).
//
// Plain values. parse_expected() bounds what it takes in and throws BadInput; whoever serves a choice still checks its
// configuration against the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct ExpectedGrid {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kMostAxes = 3, kMostCoordinates = 128, kMostPoints = std::size_t{1} << 15;

  bool uneven = false;
  std::vector<std::vector<std::int64_t>> axes;  // ascending positions in the family's dispatch table
  // Places among the configurations, row-major over the axes, the last one fastest; kNone: the nearest cell serves.
  std::vector<std::uint32_t> choices;

  bool operator==(const ExpectedGrid&) const = default;
};

struct ExpectedChoices {
  static constexpr std::size_t kMostConfigs = 1024;

  std::vector<std::string> configs;  // canonical texts, of the table's cubins
  std::vector<ExpectedGrid> grids;   // at most one a kind of work

  bool operator==(const ExpectedChoices&) const = default;
  bool empty() const { return grids.empty(); }
  std::size_t points() const;  // that have a choice
  // Leaves the nearest cell to the points whose configuration is not kept, and drops configurations that no point has.
  void keep(const std::function<bool(const std::string&)>& is_kept);
};

// Equal choices in sequence are written once, with their number.
nlohmann::ordered_json expected_json(const ExpectedChoices& expected);
ExpectedChoices parse_expected(const nlohmann::json& document, std::string_view what);

}  // namespace moetune
