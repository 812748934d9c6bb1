#include "retune/contest.h"

#include <algorithm>

#include "base/format.h"
#include "base/statistics.h"
#include "tuner/finals.h"
#include "tuner/plausibility.h"

namespace moetune {
namespace {

constexpr std::size_t kFewestPairs = 6;  // below it there is no 95% interval, and nothing is decided

}  // namespace

Contest judge_duel(const TrialResult& incumbent, const TrialResult& challenger) {
  Contest contest;
  if (challenger.outcome != Outcome::ok) {
    contest.reason = "the new winner did not run: " + challenger.message;
    return contest;
  }
  if (incumbent.outcome != Outcome::ok) {
    contest.won = true;
    contest.reason = "the present winner no longer runs: " + incumbent.message;
    return contest;
  }
  const Measurement &old = incumbent.measurement, &fresh = challenger.measurement;
  const std::size_t pairs = std::min(old.samples_us.size(), fresh.samples_us.size());
  const bool has_samples = !old.samples_us.empty() || !fresh.samples_us.empty();
  if (old.samples_us.size() == fresh.samples_us.size() && pairs >= kFewestPairs) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < old.samples_us.size(); ++i) ratios.push_back(fresh.samples_us[i] / old.samples_us[i]);
    const MedianInterval interval = median_interval(ratios);
    contest.ratio = interval.median;
    contest.low = interval.low;
    contest.high = interval.high;
  } else {
    contest.ratio = fresh.median_us / old.median_us;
    contest.low = fresh.low_us / old.high_us;
    contest.high = fresh.high_us / old.low_us;
  }
  const bool is_decided = !has_samples || pairs >= kFewestPairs;
  contest.won = is_decided && contest.high < 1 - kTie;
  contest.reason = format("%.4f of the present winner's time [%.4f, %.4f]", contest.ratio, contest.low, contest.high);
  if (!is_decided) contest.reason += format("; %zu pairs of samples, and a duel needs %zu", pairs, kFewestPairs);
  return contest;
}

std::vector<TrialResult> hold_plausible_duel(Device& device, const std::vector<Candidate>& candidates,
                                             const DuelPolicy& policy, double least_us) {
  std::vector<TrialResult> results = device.duel(candidates, policy);
  for (TrialResult& result : results) reject_impossible(result, least_us);
  return results;
}

Contest hold_contest(Device& device, QuietWatch& watch, const Candidate& incumbent, const Candidate& challenger,
                     Timing timing, double least_us, int rounds) {
  Contest worse;
  for (const bool swapped : {false, true}) {  // whoever runs second may find warmer caches
    std::vector<TrialResult> results;
    const std::vector<Candidate> pair =
        swapped ? std::vector<Candidate>{challenger, incumbent} : std::vector<Candidate>{incumbent, challenger};
    const bool quiet = watch.measure_quietly([&] {
      results = hold_plausible_duel(device, pair, {.rounds = rounds, .timing = timing, .proves = true}, least_us);
    });
    Contest one = judge_duel(results[swapped ? 1 : 0], results[swapped ? 0 : 1]);
    if (!quiet) {
      one.won = false;
      one.contended = true;
      one.reason = "somebody else used the GPU during the duel";
    }
    if (!one.won) return one;
    if (!swapped || one.ratio > worse.ratio) worse = one;
  }
  return worse;
}

}  // namespace moetune
