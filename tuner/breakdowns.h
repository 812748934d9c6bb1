// A circuit breaker: candidates that hang or crash one after the other are the machine's fault, not theirs,
// and each costs a time limit or a new worker. Belongs to one search.
#pragma once

#include "tuner/device.h"

namespace moetune {

class Breakdowns {
 public:
  // Throws BrokenEnvironment at the eighth in a row that hung or crashed, with the last one's message.
  void saw(const TrialResult& result);

 private:
  int in_a_row_ = 0;
};

}  // namespace moetune
