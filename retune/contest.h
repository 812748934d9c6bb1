// Whether a new winner may replace the present one: only if it wins two duels in interleaved rounds beyond the noise.
// So a night cannot make serving slower.
//
// Free functions for the thread that owns the device.
#pragma once

#include <string>
#include <vector>

#include "tuner/quiet_watch.h"

namespace moetune {

inline constexpr int kContestRounds = 41;

struct Contest {
  bool won = false;          // by the challenger
  bool contended = false;    // somebody else used the device: nothing was decided
  double ratio = 1;          // the challenger's time over the other's: median over rounds, the worse of two duels
  double low = 1, high = 1;  // its 95% interval
  std::string reason;        // one sentence
};

// Judges one duel by its samples, paired by round; if their numbers differ, or a recording has none, by the medians
// and their intervals. With fewer than six pairs of samples nobody wins, unless the other fails.
Contest judge_duel(const TrialResult& incumbent, const TrialResult& challenger);

// A duel in which what is faster than the GPU can be (tuner/plausibility.h) is implausible. Throws Stopped.
std::vector<TrialResult> hold_plausible_duel(Device& device, const std::vector<Candidate>& candidates,
                                             const DuelPolicy& policy, double least_us);

// Both must be ready to run; the device is open. What takes less than `least_us` is implausible. Throws Stopped.
Contest hold_contest(Device& device, QuietWatch& watch, const Candidate& incumbent, const Candidate& challenger,
                     Timing timing, double least_us, int rounds = kContestRounds);

}  // namespace moetune
