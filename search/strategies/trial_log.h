// The results of one space reported to a strategy: each configuration once, in order. One owner; not thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <unordered_map>
#include <vector>

#include "search/searcher.h"

namespace moetune {

class TrialLog {
 public:
  // False where the configuration was told before: the first report counts.
  bool add(const Observation& observation) {
    if (!position_.emplace(observation.id, trials_.size()).second) return false;
    trials_.push_back(observation);
    if (!has_usable_time(observation)) {
      ++failures_;
    } else if (observation.time_us < best_time()) {
      best_ = trials_.size() - 1;
    }
    return true;
  }

  const std::vector<Observation>& trials() const { return trials_; }
  std::size_t size() const { return trials_.size(); }
  std::size_t failures() const { return failures_; }
  std::size_t successes() const { return trials_.size() - failures_; }
  double best_time() const { return best() != nullptr ? best()->time_us : std::numeric_limits<double>::infinity(); }
  // The fastest, the first of those that tie; nullptr where none has a time.
  const Observation* best() const { return best_ < trials_.size() ? &trials_[best_] : nullptr; }
  // How many were told after the best; all where none has a time.
  std::size_t since_best() const { return best_ < trials_.size() ? trials_.size() - 1 - best_ : trials_.size(); }
  // nullptr where it was not told.
  const Observation* find(ConfigId id) const {
    const auto it = position_.find(id);
    return it != position_.end() ? &trials_[it->second] : nullptr;
  }
  // The fastest, at most `count`; ties by order of telling.
  std::vector<Observation> fastest(std::size_t count) const;

 private:
  std::vector<Observation> trials_;
  std::unordered_map<ConfigId, std::size_t> position_;
  std::size_t failures_ = 0;
  std::size_t best_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace moetune
