// Whether a time can be: a kernel that is faster than its GPU moves bytes and computes has not done its work, whatever
// its output says. Plain data and pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "kernels/kernel.h"
#include "soundness/peak.h"
#include "tuner/ceilings.h"
#include "tuner/device.h"

namespace moetune {

// The least time of a launch in microseconds; 0 if nothing is known. By the measured ceilings if these give a floor,
// else by the peak, of which only the inputs that take turns are surely read from memory, and of what is written only
// the part beyond L2 goes there. Behind a producer (Timing::chained) fresh inputs need not come from memory.
double least_time_us(const Kernel& kernel, const Problem& problem, Timing timing, const Ceilings& ceilings,
                     const GpuPeak& peak);

// An impossible time makes the result implausible; a value that is no time at all makes it a failed
// launch.
void reject_impossible(TrialResult& result, double least_us);

// Whether a time is below the floor, and not so far that it cannot be.
inline bool is_unusual(double time_us, double least_us) {
  return time_us < least_us && time_us >= kLeastShare * least_us;
}

}  // namespace moetune
