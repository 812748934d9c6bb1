// Whether a stored winner is worth a search, from a probe of about ten configurations: it, the default, and some of
// those that were measured beside it at that time. Pure functions; all figures are relative to the others of the probe,
// so that a GPU whose clocks differ tonight alarms nobody.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tuner/device.h"

namespace moetune {

struct Probed {
  double then_us = 0;  // as it was measured with the winner; 0: not known
  TrialResult now;
};

struct ProbeReading {
  Probed winner;
  std::vector<Probed> others;
};

enum class Remedy {
  keep,   // the winner is as good as it was
  patch,  // a short search near the winner
  full,   // a whole search: what is known of this workload no longer holds
};

std::string_view remedy_name(Remedy remedy);  // "patch"

struct Triage {
  Remedy remedy = Remedy::keep;
  double lost = 0;     // of the winner's speed, beside the others: 0.1 for 10% slower
  std::string reason;  // one sentence
};

inline constexpr std::size_t kProbeSize = 10;  // configurations, the winner included
inline constexpr int kProbeRounds = 11;

Triage triage(const ProbeReading& reading);

}  // namespace moetune
