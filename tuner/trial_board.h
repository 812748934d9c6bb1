// The trials of one search and what follows from them: the counts, the best so far. Writes to the TuneResult
// that it is made from, which must outlive it; belongs to the tuning thread.
#pragma once

#include <optional>
#include <unordered_map>

#include "tuner/tune.h"

namespace moetune {

class TrialBoard {
 public:
  explicit TrialBoard(TuneResult& result) : result_(result) {}

  // Returns its position in TuneResult::trials.
  std::size_t add(Trial trial);
  // The same configuration measured again.
  void replace(std::size_t position, TrialResult again);
  // Marks a result that was measured beside other work, so that nobody takes it as a fact.
  void mark_contended(std::size_t position);

  const Trial& operator[](std::size_t position) const { return result_.trials[position]; }
  const TrialCounts& counts() const { return result_.counts; }

  // The fastest that is ok; of contended ones only if no other is. Null before there is one.
  const Trial* best() const { return best_ ? &result_.trials[*best_] : nullptr; }
  // nullptr if it was not measured.
  const Trial* find(ConfigId id) const;

  // In the order measured, without those that are contended.
  std::vector<Observation> sound_observations() const;

 private:
  bool beats_best(const Trial& trial) const;
  void find_best();

  TuneResult& result_;
  std::unordered_map<ConfigId, std::size_t> position_;
  std::optional<std::size_t> best_;
};

}  // namespace moetune
