#include "tuner/worker/canary.h"

#include <algorithm>

namespace moetune {

CanaryReading merge_canary(std::span<const CanaryPartial> blocks) {
  std::uint64_t begin = blocks.front().begin_ns, end = blocks.front().end_ns;
  std::uint64_t lost = 0, longest = 0, windows = 0, slow = 0;
  for (const CanaryPartial& block : blocks) {
    begin = std::min(begin, block.begin_ns);
    end = std::max(end, block.end_ns);
    lost = std::max(lost, block.lost_ns);
    longest = std::max(longest, block.longest_gap_ns);
    windows += block.windows;
    slow += block.slow_windows;
  }
  CanaryReading reading;
  reading.elapsed_us = static_cast<double>(end - begin) * 1e-3;
  reading.lost_us = static_cast<double>(lost) * 1e-3;
  reading.longest_gap_us = static_cast<double>(longest) * 1e-3;
  const double ran_us = reading.elapsed_us - reading.lost_us;
  if (ran_us > 0) reading.windows_per_us = static_cast<double>(windows) / ran_us;
  if (windows > 0) reading.slow_share = static_cast<double>(slow) / static_cast<double>(windows);
  return reading;
}

}  // namespace moetune
