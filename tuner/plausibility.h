// Whether a time can be: a kernel that is faster than its GPU moves bytes and computes has not done its work, whatever
// its output says. Plain data and pure functions; any thread.
#pragma once

#include <optional>
#include <string>

#include "kernels/kernel.h"
#include "tuner/ceilings.h"
#include "tuner/device.h"

namespace moetune {

// Times below this share of the floor are implausible: no result is made of them. Between it and the floor they are
// unusual, as ceilings are measured within a few percent and a little of what is read may still lie in L2: they are
// judged once more.
inline constexpr double kLeastShare = 0.8;

// What a GPU cannot exceed, by its data sheet: its clocks, its SMs and the width of its memory's bus. A bus of unknown
// width (0) counts as the widest there is.
struct GpuPeak {
  double memory_tb_s = 0;
  double bf16_tflop_s = 0, e4m3_tflop_s = 0, fp32_tflop_s = 0;  // dense; 0 for an unknown architecture
  std::int64_t l2_bytes = 0;
};
GpuPeak peak_of(const HardwareKey& hardware, int memory_bus_bits);

// The least time of a launch in microseconds; 0 if nothing is known. By the measured ceilings if these give a floor,
// else by the peak, of which only the inputs that take turns are surely read from memory, and of what is written only
// the part beyond L2 goes there. Behind a producer (Timing::chained) fresh inputs need not come from memory.
double least_time_us(const Kernel& kernel, const Problem& problem, Timing timing, const Ceilings& ceilings,
                     const GpuPeak& peak);

// "faster than the GPU can be: 1.94 us, and no launch takes less than 12.1 us"; "" for a time that can be, and if
// `least_us` is 0.
std::string why_implausible(double time_us, double least_us);

// A time that cannot be makes the result an implausible one; one that is no time at all, whoever reports it, a failed
// launch.
void reject_impossible(TrialResult& result, double least_us);

// Whether a time is below the floor, and not so far that it cannot be.
inline bool is_unusual(double time_us, double least_us) {
  return time_us < least_us && time_us >= kLeastShare * least_us;
}

}  // namespace moetune
