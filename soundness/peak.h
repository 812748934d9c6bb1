// A GPU's limits by its data sheet, and the shortest time of a launch that follows. Plain data and pure functions;
// any thread.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cost.h"
#include "keys/key.h"

namespace moetune {

// Times below this share of the floor are implausible: no result is made of them. Between it and the floor they are
// unusual, as ceilings are measured within a few percent and a little of what is read may still lie in L2: they are
// judged once more.
inline constexpr double kLeastShare = 0.8;

// By a GPU's clocks, its SMs and the width of its memory's bus. A bus of unknown width (0) counts as the widest there
// is.
struct GpuPeak {
  double memory_tb_s = 0;
  double bf16_tflop_s = 0, e4m3_tflop_s = 0, fp32_tflop_s = 0;  // dense; 0 for an unknown architecture
  std::int64_t l2_bytes = 0;
};
GpuPeak peak_of(const HardwareKey& hardware, int memory_bus_bits);

// No kernel begins and ends within less on any GPU, and none waits for nothing.
inline constexpr double kLeastLaunchUs = 0.1;

// The least time of a launch in microseconds, of whose inputs `cold_bytes` come from memory, and of what it writes the
// part beyond L2 goes there; 0 if nothing is known.
double least_time_us(const Cost& cost, double cold_bytes, const GpuPeak& peak);

// The same, no less than kLeastLaunchUs, for who has no time to make a problem's inputs: cold ones count as read from
// memory whole, but behind a producer (Timing::chained) only what exceeds L2.
double least_time_us(const Cost& cost, Timing timing, const GpuPeak& peak);

// "faster than the GPU can be: 1.94 us, and no launch takes less than 12.1 us"; "" for a time that can be, and if
// `least_us` is 0.
std::string why_implausible(double time_us, double least_us);

}  // namespace moetune
