#include "tuner/trial_store.h"

namespace moetune {

std::unordered_map<std::string, TrialResult> TrialStore::known_trials() {
  std::unordered_map<std::string, TrialResult> known;
  if (tools_.cache == nullptr) return known;
  if (request_.fresh) tools_.cache->clear_trials(tools_.workload);
  for (const TrialRecord& record : tools_.cache->trials(tools_.workload)) {
    if (may_end_otherwise(record)) continue;
    if (std::optional<TrialResult> result = from_record(record))
      known.emplace(record.config, *std::move(result));
  }
  return known;
}

void TrialStore::put(const Trial& trial, const Build* build) {
  if (tools_.cache == nullptr) return;
  tools_.cache->put_trial(tools_.workload, to_record(trial.config, trial.result, build, provenance()));
}

void TrialStore::put_winner(const TuneResult& result) {
  if (tools_.cache == nullptr || result.winner.build == nullptr) return;
  Provenance source = provenance();
  source.trials = result.counts.total();
  const auto ceiling = tools_.cache->calibration(tools_.device.info().key, "read_tb_s");
  const double seconds = result.best->result.measurement.median_us * 1e-6;
  const double roofline =
      ceiling ? request_.kernel->cost(request_.problem).bytes / (*ceiling * 1e12) / seconds : 0.0;
  const TrialResult* baseline = result.baseline ? &result.baseline->result : nullptr;
  tools_.cache->put_winner(tools_.workload,
                           to_winner(result.winner, result.best->result, baseline, roofline, source));
}

std::optional<std::string> TrialStore::winner() const {
  if (tools_.cache == nullptr) return std::nullopt;
  try {
    if (const auto stored = tools_.cache->winner(tools_.workload)) return stored->config;
  } catch (const DamagedWinner&) {
  }
  return std::nullopt;
}

Provenance TrialStore::provenance() const {
  return {.strategy = request_.strategy,
          .seed = request_.seed,
          .device = tools_.device.info().id,
          .driver = tools_.device.info().key.driver};
}

}  // namespace moetune
