// How a fleet divides a list: every process deals the same list in the same way, and works on its own part.
//
// The deal depends on the list and on the number of shards alone, never on a GPU, a cache or a clock, so that processes
// that know nothing of each other agree on it. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workloads/workload_list.h"

namespace moetune {

// Part `number` of `count`, from 1: "2/4".
struct Shard {
  std::uint64_t number = 1, count = 1;
};

// A range's search takes about as long as this many searches of one workload.
inline constexpr std::uint64_t kSearchesOfARange = 10;

Shard parse_shard(const std::string& text);  // throws BadInput

// About how many milliseconds of a GPU's time a whole search of `budget` trials takes: an estimate from the problem's
// bytes and operations on a GPU of fixed ceilings. Throws BadInput for an unknown kernel or problem.
std::uint64_t search_length_ms(const TuningPoint& point, std::size_t budget);

struct DealtPoint {
  TuningPoint point;
  std::uint64_t length_ms = 0;
};

// The points of each shard. Longest first, of equal length by digest; each goes to the shard with the least work so
// far, of equal ones to the first. A shard's points keep the order of `points`. Of lengths in milliseconds, no shard
// has more than 4/3 of what the best deal of the same points would give to its longest one.
std::vector<std::vector<TuningPoint>> deal(const std::vector<DealtPoint>& points, std::uint64_t shards);

// The shard's part of `work`; all if it is the only one. A range counts as ten searches of its problem.
TuningWork work_of_shard(TuningWork work, const Shard& shard, std::size_t budget);

}  // namespace moetune
