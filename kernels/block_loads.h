// How the work of a launch falls to its blocks, and how long it takes if the SMs start one block after the other and
// share the bandwidth of memory. Plain values; pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace moetune {

struct BlockLoads {
  // Blocks that start one after the other and read as many bytes each.
  struct Run {
    std::int64_t blocks = 0;
    double bytes = 0;
    bool operator==(const Run&) const = default;
  };

  std::vector<Run> runs;      // in the order in which they start
  std::int64_t resident = 1;  // blocks that an SM holds at once

  // Adds to the last run if its blocks read as many bytes.
  void add(std::int64_t blocks, double bytes);
  bool operator==(const BlockLoads&) const = default;
};

// How blocks share an SM and the bandwidth. Bytes are what one block could read meanwhile at full rate.
struct BlockPace {
  double saturating = 1;        // blocks an SM that take the whole bandwidth; above 0
  double block_bytes = 0;       // what it costs to begin and end a block with work
  double idle_block_bytes = 0;  // and one without
};

// The time of list scheduling: a block starts as soon as another one has ended, `resident` on each SM at most. All
// that run are equally fast, at full rate up to `saturating` blocks an SM; more of them share that bandwidth. The unit
// is a byte that a block reads at full rate. 0 without blocks.
double makespan(const BlockLoads& loads, std::int64_t sm_count, const BlockPace& pace);

// The mean over several orders of the same work; 0 without any.
double mean_makespan(const std::vector<BlockLoads>& orders, std::int64_t sm_count, const BlockPace& pace);

}  // namespace moetune
