// A job's observations of other work on its device. Plain data.
#pragma once

#include <cstddef>

namespace moetune {

struct Contention {
  std::size_t canaries = 0;             // that ran; 0 for a recording
  std::size_t disturbed = 0;            // of these
  double longest_quiet_us = 0;          // the longest gap in one that counted as quiet
  double largest_quiet_slow_share = 0;  // of windows slowed by something on the same SMs, likewise
  double waited_s = 0;                  // for a quiet device, with what was measured again meanwhile
  std::size_t again = 0;                // trials measured again
  std::size_t contended = 0;            // trials that could not be
  std::size_t unchecked = 0;            // trials after the last canary of a search that was stopped
  bool gave_up = false;                 // the device did not get quiet in time
};

}  // namespace moetune
