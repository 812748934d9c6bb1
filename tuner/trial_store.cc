#include "tuner/trial_store.h"

#include "tuner/ceilings.h"
#include "tuner/plausibility.h"

namespace moetune {

void store_winner(const TuneRequest& request, const TuneTools& tools, const TuneResult& result) {
  if (tools.cache == nullptr || result.winner.build == nullptr) return;
  tools.events.emit(PhaseChanged{Phase::storing});
  Provenance source = provenance_of(request.strategy, request.seed, tools.device.info());
  source.trials = result.counts.total();
  source.provisional = result.provisional;
  source.judged = Judgement(request.kernel, request.problem, tools.device.info()).of_problem();
  const std::optional<Floor> floor =
      floor_of(request.kernel->cost(request.problem), stored_ceilings(tools.cache, tools.device.info().key),
               launches_of(result.winner.plan));
  const double roofline = floor ? floor->roofline_fraction(result.best->result.measurement.median_us) : 0.0;
  const TrialResult* baseline = result.baseline ? &result.baseline->result : nullptr;
  WinnerRecord record =
      to_winner(result.winner, result.best->result, result.default_candidate, baseline, roofline, source);
  record.timings = timings_text(result.timings);
  tools.cache->winners.put(tools.workload, record);
}

KnownTrials TrialStore::known_trials() {
  KnownTrials known;
  if (tools_.cache == nullptr) return known;
  if (request_.fresh) tools_.cache->trials.clear(tools_.workload);
  for (const TrialRecord& record : tools_.cache->trials.of(tools_.workload)) {
    if (!judgement().holds(record, *request_.space)) continue;
    if (should_retry(record)) {
      const std::optional<Outcome> outcome = outcome_from_name(record.outcome);
      if (outcome && is_breakdown(*outcome)) breaker_.remember_breakdown(record.config);
      continue;
    }
    std::optional<TrialResult> result = from_record(record);
    if (!result) continue;
    reject_impossible(*result, request_.least_us);  // a merge may have brought it
    known.by_config.emplace(record.config, *std::move(result));
    if (belongs_to_search(record, request_.strategy, request_.seed)) known.of_this_search.push_back(record.config);
  }
  return known;
}

const Judgement& TrialStore::judgement() {
  if (!judgement_) judgement_.emplace(request_.kernel, request_.problem, tools_.device.info());
  return *judgement_;
}

TrialRecord TrialStore::record_of(const Trial& trial, const Build* build, bool final_breakdown) {
  return to_record(trial.config, trial.result, build,
                   {.strategy = request_.strategy,
                    .seed = request_.seed,
                    .device = tools_.device.info().id,
                    .driver = tools_.device.info().key.driver,
                    .final_breakdown = final_breakdown,
                    .judged = judgement().of(trial.config)});
}

void TrialStore::put(const Trial& trial, const Build* build) {
  if (tools_.cache == nullptr) return;
  const bool final_breakdown = is_breakdown(trial.result.outcome) && breaker_.is_config_fault(trial.config.text());
  tools_.cache->trials.put(tools_.workload, record_of(trial, build, final_breakdown));
}

void TrialStore::mark_retryable(const Trial& trial) {
  if (tools_.cache != nullptr) tools_.cache->trials.put(tools_.workload, record_of(trial, nullptr, false));
}

void TrialStore::put_winner(const TuneResult& result) {
  if (request_.store_winner) store_winner(request_, tools_, result);
}

bool TrialStore::lacks_winner(double time_us) const {
  try {
    const auto stored = tools_.cache->winners.find(tools_.workload, WinnerParts::without_cubins);
    return !stored || stored->contended || (is_provisional(stored->provenance) && stored->time_us > time_us);
  } catch (const DamagedWinner&) {
    return true;
  }
}

std::optional<std::string> TrialStore::winner() const {
  if (tools_.cache == nullptr) return std::nullopt;
  try {
    if (const auto stored = tools_.cache->winners.find(tools_.workload)) return stored->config;
  } catch (const DamagedWinner&) {
  }
  return std::nullopt;
}

}  // namespace moetune
