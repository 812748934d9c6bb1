#include "tuner/plausibility.h"

#include <algorithm>

#include "search/searcher.h"

namespace moetune {
namespace {

double bytes_of(const std::vector<Buffer>& buffers, bool Buffer::*mark) {
  double bytes = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.is_read() && buffer.*mark) bytes += static_cast<double>(buffer.bytes());
  }
  return bytes;
}

}  // namespace

double least_time_us(const Kernel& kernel, const Problem& problem, Timing timing, const Ceilings& ceilings,
                     const GpuPeak& peak) {
  Cost cost = kernel.cost(problem);
  const std::vector<Buffer> buffers = kernel.buffers(problem, 1);
  double rotating = bytes_of(buffers, &Buffer::rotates);
  if (timing == Timing::chained) {
    const double fresh = bytes_of(buffers, &Buffer::fresh);
    cost.read_bytes = std::max(0.0, cost.read_bytes - fresh);
    rotating = std::max(0.0, rotating - fresh);
  }
  const auto l2 = static_cast<double>(peak.l2_bytes);
  // Traffic that may stay in the cache has no ceiling here.
  Cost beyond = cost;
  if (cost.inputs == Inputs::cold) beyond.read_bytes = std::min(cost.read_bytes, rotating);
  beyond.written_bytes = std::max(0.0, cost.written_bytes - l2);
  const std::optional<Floor> measured = floor_of(beyond, ceilings, Launches::overlapping);
  if (measured) return measured->us;
  const bool is_cold = cost.inputs == Inputs::cold;
  return least_time_us(cost, is_cold ? beyond.read_bytes : std::max(0.0, cost.read_bytes - l2), peak);
}

void reject_impossible(TrialResult& result, double least_us) {
  if (!has_time(result.outcome)) return;
  const double time_us = result.measurement.median_us;
  if (!has_usable_time({0, result.outcome, time_us})) {
    result.message = "measured " + std::to_string(time_us) + " us, which is no time";
    result.outcome = Outcome::launch_failed;
  } else if (std::string reason = why_implausible(time_us, least_us); !reason.empty()) {
    result.message = std::move(reason);
    result.outcome = Outcome::implausible;
  }
}

}  // namespace moetune
