// A circuit breaker: candidates that hang or crash one after the other are the machine's fault, not theirs,
// and each costs a time limit or a new worker. Belongs to one search.
#pragma once

#include <set>
#include <string>

#include "tuner/device.h"

namespace moetune {

class CircuitBreaker {
 public:
  // A configuration that an earlier search saw break down, and that is tried once more. Should it break down
  // again, then that is its own fault: it counts no further here, and need not be tried a third time.
  void remember_breakdown(const std::string& config) { before_.insert(config); }

  // Throws BrokenEnvironment at the eighth in a row that hung or crashed for the first time, with its
  // message.
  void record(const std::string& config, const TrialResult& result);

  bool is_config_fault(const std::string& config) const { return before_.contains(config); }

 private:
  std::set<std::string> before_;
  int in_a_row_ = 0;
};

}  // namespace moetune
