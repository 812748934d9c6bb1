// How the work of a launch falls to its blocks, and how long it takes if the SMs start one block after the other and
// share the bandwidth of memory. Plain values; pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <utility>
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

// What it costs to begin and end a block, in bytes that it could read meanwhile: one with work, and one without.
inline constexpr double kBlockBytes = 128 << 10, kIdleBlockBytes = 20 << 10;

// The time of list scheduling: a block starts as soon as another one has ended, `resident` on each SM at most. All
// that run are equally fast, at full rate up to 0.7 blocks an SM; more of them share that bandwidth. The unit is a
// byte that a block reads at full rate: only ratios mean something. 0 without blocks.
double makespan(const BlockLoads& loads, std::int64_t sm_count);

// Makespans of launches, each computed once: at one problem many configurations have the same. Not thread-safe.
class Makespans {
 public:
  explicit Makespans(std::int64_t sm_count) : sm_count_(sm_count) {}

  // The mean of several orders of the same work; 0 without any.
  double mean_of(std::vector<BlockLoads> orders);

 private:
  std::int64_t sm_count_;
  std::vector<std::pair<std::vector<BlockLoads>, double>> known_;
};

}  // namespace moetune
