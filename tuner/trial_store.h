// Stores one search's trials and its winner: in a workload of the cache, or nowhere. Belongs to the tuning thread;
// its arguments must outlive it.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tuner/circuit_breaker.h"
#include "tuner/judgement.h"
#include "tuner/trial_record.h"
#include "tuner/tune.h"

namespace moetune {

// Earlier trials of a workload, by canonical text.
struct KnownTrials {
  std::unordered_map<std::string, TrialResult> by_config;
  std::vector<std::string> of_this_search;  // those of the same strategy and seed, in the order they landed
};

// Stores the winner of `result` as the workload's, with the default that it beat. A winner that was not compiled is not
// kept. Emits Phase::storing if there is something to store.
void store_winner(const TuneRequest& request, const TuneTools& tools, const TuneResult& result);

class TrialStore {
 public:
  TrialStore(const TuneRequest& request, const TuneTools& tools, CircuitBreaker& breaker)
      : request_(request), tools_(tools), breaker_(breaker) {}

  // Without those that may end otherwise and those of another plan or judge (tuner/judgement.h); forgets all of them
  // first where the request asks for a fresh start.
  KnownTrials known_trials();
  void put(const Trial& trial, const Build* build);
  // A breakdown that was the machine's fault: another search tries the configuration again.
  void mark_retryable(const Trial& trial);
  // As store_winner(), unless the request leaves that to the caller.
  void put_winner(const TuneResult& result);
  // Whether a provisional winner of that time would be worth storing: there is none but a slower provisional one, or
  // one that cannot be served.
  bool lacks_winner(double time_us) const;
  // The configuration of the winner that the cache holds. One that it cannot hand out undamaged counts as
  // absent: this search's winner replaces it.
  std::optional<std::string> winner() const;

 private:
  const Judgement& judgement();
  TrialRecord record_of(const Trial& trial, const Build* build, bool final_breakdown);

  const TuneRequest& request_;
  const TuneTools& tools_;
  CircuitBreaker& breaker_;
  std::optional<Judgement> judgement_;  // once it is needed
};

}  // namespace moetune
