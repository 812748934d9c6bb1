#include "tuner/circuit_breaker.h"

#include "base/error.h"

namespace moetune {

void CircuitBreaker::record(const std::string& config, const TrialResult& result) {
  constexpr int kMost = 8;
  const bool broke_down = is_breakdown(result.outcome);
  if (broke_down && is_config_fault(config)) return;
  in_a_row_ = broke_down ? in_a_row_ + 1 : 0;
  if (in_a_row_ < kMost) return;
  throw BrokenEnvironment(
      std::to_string(in_a_row_) + " candidates in a row hung or crashed (the last: " + result.message +
      "); see whether nvidia-smi answers, then run the search again to go on, or with another --seed");
}

}  // namespace moetune
