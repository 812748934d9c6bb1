// The smallest set of cubins that serves a whole grid: in every cell one of them is within a bound of the best that was
// measured there, or the default is, which serves wherever none is faster: its cubins are at hand in any case.
//
// Pure and deterministic: of equally small sets the one with the least worst regret, then the least sum of logarithms,
// then the first cubins in order.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace moetune {

// Times measured in one cell of a grid: microseconds, each cubin with its best run-time values there. Infinity for a
// cubin that cannot run.
struct CellTimes {
  std::vector<double> cubins;
  double default_us = 0;  // infinity if there is none
  // The best of what was measured here and is not to choose from.
  double others_us = std::numeric_limits<double>::infinity();

  double best_us() const;  // of all, the default included; infinity if nothing runs
};

struct Cover {
  std::vector<std::size_t> cubins;  // ascending
  double worst_regret = 0;          // of all cells, by best_choice(); 0.02 is 2%
  bool within_bound = false;        // every cell keeps the bound
};

// The cubin of `cubins` that serves in a cell: the fastest, the first of equals. nullopt if it is not faster than the
// default, so that the default serves.
std::optional<std::size_t> best_choice(const CellTimes& cell, const std::vector<std::size_t>& cubins);

// At most `limit` cubins. If no such set keeps `bound` everywhere: the one that loses least on the whole. Exact while
// sets, smaller ones and first ones first, look at no more than kExactLooks cells in all, which takes half a second;
// then the best so far, or what greedy choice found.
inline constexpr std::size_t kExactLooks = 20'000'000;
Cover choose_cubins(const std::vector<CellTimes>& cells, double bound, std::size_t limit);

}  // namespace moetune
