#include "tuner/trial_board.h"

#include <utility>

namespace moetune {

std::size_t TrialBoard::add(Trial trial) {
  ++result_.counts[trial.result.outcome];
  result_.counts.resumed += trial.resumed;
  const std::size_t position = result_.trials.size();
  position_.emplace(trial.id, position);
  if (beats_best(trial)) best_ = position;
  result_.trials.push_back(std::move(trial));
  return position;
}

void TrialBoard::replace(std::size_t position, TrialResult again) {
  TrialResult& result = result_.trials[position].result;
  --result_.counts[result.outcome];
  ++result_.counts[again.outcome];
  result = std::move(again);
  find_best();
}

void TrialBoard::mark_contended(std::size_t position) {
  result_.trials[position].result.contended = true;
  find_best();
}

bool TrialBoard::beats_best(const Trial& trial) const {
  if (trial.result.outcome != Outcome::ok) return false;
  if (best() == nullptr) return true;
  const auto rank = [](const TrialResult& result) { return std::pair(result.contended, result.measurement.median_us); };
  return rank(trial.result) < rank(best()->result);
}

void TrialBoard::find_best() {
  best_.reset();
  for (std::size_t i = 0; i < result_.trials.size(); ++i) {
    if (beats_best(result_.trials[i])) best_ = i;
  }
}

const Trial* TrialBoard::find(ConfigId id) const {
  const auto found = position_.find(id);
  return found == position_.end() ? nullptr : &result_.trials[found->second];
}

std::vector<Observation> TrialBoard::sound_observations() const {
  std::vector<Observation> all;
  for (const Trial& trial : result_.trials) {
    if (trial.result.contended) continue;
    all.push_back({trial.id, trial.result.outcome, trial.result.measurement.median_us});
  }
  return all;
}

}  // namespace moetune
