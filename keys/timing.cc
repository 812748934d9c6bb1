#include "keys/timing.h"

namespace moetune {

std::string_view timing_name(Timing timing) {
  static constexpr std::string_view kNames[] = {"chained", "overlapped", "alone"};
  return kNames[static_cast<std::size_t>(timing)];
}

std::optional<Timing> timing_from_name(std::string_view name) {
  for (const Timing timing : kTimings) {
    if (timing_name(timing) == name) return timing;
  }
  return std::nullopt;
}

}  // namespace moetune
