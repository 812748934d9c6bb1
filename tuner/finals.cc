#include "tuner/finals.h"

#include <algorithm>
#include <numeric>

namespace moetune {

std::vector<std::size_t> rank_duel(const std::vector<Trial>& trials) {
  std::vector<std::size_t> order(trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto median = [&](std::size_t i) { return trials[i].result.measurement.median_us; };
  const auto stands = [&](std::size_t i) { return trials[i].result.outcome == Outcome::ok; };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (stands(a) != stands(b)) return stands(a);
    if (median(a) != median(b)) return median(a) < median(b);
    return trials[a].id < trials[b].id;
  });
  // Ties are taken against the fastest of the group, not from one to the next: a chain of near equals must
  // not lift a slow one to the front.
  for (auto group = order.begin(); group != order.end() && stands(*group);) {
    const double limit = median(*group) * (1 + kTie);
    const auto end =
        std::find_if(group, order.end(), [&](std::size_t i) { return !stands(i) || median(i) > limit; });
    std::sort(group, end, [&](std::size_t a, std::size_t b) { return trials[a].id < trials[b].id; });
    group = end;
  }
  return order;
}

Verdict run_finals(Device& device, const std::vector<Finalist>& finalists, int rounds,
                   std::uint64_t verify_seed) {
  Verdict verdict;
  std::vector<Candidate> candidates;
  for (const Finalist& finalist : finalists) candidates.push_back(finalist.candidate);
  const std::vector<TrialResult> results = device.duel(candidates, rounds);
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    verdict.trials.push_back(finalists[i].trial);
    verdict.trials.back().result = results[i];
  }
  for (const std::size_t i : rank_duel(verdict.trials)) {
    TrialResult& result = verdict.trials[i].result;
    if (result.outcome != Outcome::ok) break;
    const TrialResult check = device.verify(candidates[i], verify_seed);
    if (check.outcome == Outcome::ok) {
      verdict.winner = i;
      break;
    }
    result.outcome = check.outcome;
    result.message = "on inputs from another seed: " + check.message;
  }
  return verdict;
}

}  // namespace moetune
