// A Device whose answers a test scripts: a time for each configuration, or an outcome.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tuner/device.h"

namespace moetune {

class ScriptedDevice : public Device {
 public:
  std::function<TrialResult(const Config&)> answer;                     // a trial's result
  std::function<TrialResult(const Config&)> duel_answer;                // empty: as `answer`
  std::function<TrialResult(const Config&)> alone_answer;               // of a duel of one; empty: as the others
  std::function<TrialResult(const Config&, Timing)> timed_duel_answer;  // before the other if it is set
  std::function<std::optional<CanaryReading>()> canary_answer;          // empty: as a recording
  std::set<std::string> wrong_on_fresh_inputs;                          // canonical texts that verify() refuses
  std::vector<std::string> ran;                                         // canonical texts, in order
  std::vector<Timing> timings;                                          // of the duels, in order
  std::uint64_t opened = 1;                                             // the seed of what is timed: no fresh inputs
  std::vector<std::uint64_t> verified;                                  // seeds, in order
  std::vector<double> drop_limits;                                      // policy.drop_above_us of each run

  const DeviceInfo& info() const override { return info_; }
  DeviceLimits& limits() { return info_.limits; }
  void open(const Kernel&, const Problem&, std::uint64_t seed) override { opened = seed; }

  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override {
    ran.push_back(candidate.config.text());
    drop_limits.push_back(policy.drop_above_us);
    TrialResult result = answer(candidate.config);
    if (result.measurement.median_us > policy.drop_above_us) result.outcome = Outcome::too_slow;
    return result;
  }

  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override {
    timings.push_back(policy.timing);
    if (alone_answer && finalists.size() == 1) return {alone_answer(finalists[0].config)};
    std::vector<TrialResult> results;
    for (const Candidate& finalist : finalists) {
      results.push_back(timed_duel_answer ? timed_duel_answer(finalist.config, policy.timing)
                                          : (duel_answer ? duel_answer : answer)(finalist.config));
    }
    return results;
  }

  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double) override {
    verified.push_back(seed);
    if (seed == opened) return {.outcome = Outcome::wrong_result, .message = "on inputs that it has met"};
    if (wrong_on_fresh_inputs.contains(candidate.config.text())) {
      return {.outcome = Outcome::wrong_result, .message = "max error 3"};
    }
    return {};
  }

  std::optional<CanaryReading> canary() override { return canary_answer ? canary_answer() : std::nullopt; }

 private:
  DeviceInfo info_{.id = "scripted"};
};

inline TrialResult timed(double us) {
  TrialResult result;
  result.measurement.median_us = us;
  result.measurement.low_us = us * 0.99;
  result.measurement.high_us = us * 1.01;
  return result;
}

}  // namespace moetune
