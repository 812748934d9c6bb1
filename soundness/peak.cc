#include "soundness/peak.h"

#include <algorithm>
#include <array>

#include "base/format.h"

namespace moetune {
namespace {

constexpr int kWidestBusBits = 8192;  // eight stacks of HBM

// Operations of an SM in a clock: dense products of bf16 or fp16 and of e4m3 on tensor cores, with fp32 accumulators,
// and fp32 on CUDA cores. Some consumer GPUs do half of that.
struct SmRates {
  int first, last;  // compute capabilities
  double bf16, e4m3, fp32;
};
constexpr std::array kRates = {SmRates{80, 80, 2048, 0, 128},       SmRates{86, 86, 1024, 0, 256},
                               SmRates{87, 87, 2048, 0, 256},       SmRates{89, 89, 1024, 2048, 256},
                               SmRates{90, 90, 4096, 8192, 256},    SmRates{100, 103, 8192, 16384, 256},
                               SmRates{110, 110, 8192, 16384, 256}, SmRates{120, 121, 1024, 2048, 256}};

double us_for(double amount, double tera_per_s) {
  return amount > 0 && tera_per_s > 0 ? amount / tera_per_s * 1e-6 : 0;
}

}  // namespace

GpuPeak peak_of(const HardwareKey& hardware, int memory_bus_bits) {
  const double bits = memory_bus_bits > 0 ? memory_bus_bits : kWidestBusBits;
  // Two transfers a clock.
  GpuPeak peak{.memory_tb_s = 2 * bits / 8 * hardware.memory_clock_khz * 1e-9, .l2_bytes = hardware.l2_bytes};
  const double clocks_per_s = 1e3 * hardware.sm_clock_khz * hardware.sm_count;
  for (const SmRates& rates : kRates) {
    if (hardware.compute_capability < rates.first || hardware.compute_capability > rates.last) continue;
    peak.bf16_tflop_s = rates.bf16 * clocks_per_s * 1e-12;
    peak.e4m3_tflop_s = rates.e4m3 * clocks_per_s * 1e-12;
    peak.fp32_tflop_s = rates.fp32 * clocks_per_s * 1e-12;
  }
  return peak;
}

double least_time_us(const Cost& cost, double cold_bytes, const GpuPeak& peak) {
  const double moved = cold_bytes + std::max(0.0, cost.written_bytes - static_cast<double>(peak.l2_bytes));
  const Flops& flops = cost.flops;
  const double tensor = us_for(flops.bf16 + flops.fp16, peak.bf16_tflop_s) +
                        us_for(flops.e4m3, peak.e4m3_tflop_s > 0 ? peak.e4m3_tflop_s : 2 * peak.bf16_tflop_s);
  return std::max({us_for(moved, peak.memory_tb_s), tensor, us_for(flops.fp32, peak.fp32_tflop_s)});
}

double least_time_us(const Cost& cost, Timing timing, const GpuPeak& peak) {
  const bool is_cold = cost.inputs == Inputs::cold && timing != Timing::chained;
  const double beyond_l2 = std::max(0.0, cost.read_bytes - static_cast<double>(peak.l2_bytes));
  return std::max(kLeastLaunchUs, least_time_us(cost, is_cold ? cost.read_bytes : beyond_l2, peak));
}

std::string why_implausible(double time_us, double least_us) {
  if (time_us >= kLeastShare * least_us) return "";
  return format("faster than the GPU can be: %.3g us, and no launch takes less than %.3g us", time_us, least_us);
}

}  // namespace moetune
