// The document of a search, apart from the search, because documents take most of its time to compile.
#include "jobs/search_job.h"

namespace moetune {
namespace {

// The objective in another tuner's results; null for results that are times.
Document objective_document(const std::optional<Objective>& objective) {
  if (!objective) return nullptr;
  return {{"name", objective->name},
          {"unit", objective->is_time() ? "us" : objective->unit},
          {"better", objective->larger_is_better ? "larger" : "smaller"}};
}

// The figures of an objective other than time, in place of times.
Document best_figure_document(const Objective& objective, const Trial& best) {
  return {{"config", best.config.text()},
          {"parameters", assignment_document(best.config)},
          {"figure", objective.figure(best.id)},
          {"best_recorded", objective.best}};
}

Document best_document(const Subject& subject, const Trial& best) {
  if (!subject.holds_times()) return best_figure_document(*subject.objective, best);
  const Measurement& measured = best.result.measurement;
  const double time = measured.median_us;
  Document document = {{"config", best.config.text()},
                       {"parameters", assignment_document(best.config)},
                       {"time_us", number_or_null(time)},
                       {"interval_us", {number_or_null(measured.low_us), number_or_null(measured.high_us)}}};
  document.update(speed_document(subject.work, subject.floor, time));
  if (subject.optimum_us) document["regret"] = number_or_null(time / *subject.optimum_us);
  if (measured.sm_clock_mhz > 0) document["sm_clock_mhz"] = measured.sm_clock_mhz;
  if (measured.throttled) document["throttled"] = true;
  if (!measured.settled) document["unsettled"] = true;
  if (best.result.contended) document["contended"] = true;
  return document;
}

Document confidence_document(const Confidence& confidence) {
  if (!confidence.known) return nullptr;
  return {{"within_5_percent", confidence.within_5_percent},
          {"more_trials", kMoreTrials},
          {"expected_gain", confidence.expected_gain},
          {"at_floor", confidence.at_floor}};
}

Document proposer_document(const std::optional<ProposerReport>& proposer) {
  if (!proposer) return nullptr;
  return {{"name", proposer->name},         {"suggested", proposer->suggested},
          {"rejected", proposer->rejected}, {"variants", proposer->variants},
          {"done", proposer->done},         {"left_out", text_or_null(proposer->why_left_out)}};
}

Document variant_document(const std::optional<VariantDuel>& duel) {
  if (!duel) return nullptr;
  const auto time = [](const TrialResult& result) {
    return has_time(result.outcome) ? number_or_null(result.measurement.median_us) : Document(nullptr);
  };
  return {{"name", duel->name},
          {"source_digest", duel->source_digest},
          {"config", duel->config.text()},
          {"outcome", outcome_name(duel->result.outcome)},
          {"message", duel->result.message},
          {"time_us", time(duel->result)},
          {"best_us", time(duel->winner)},
          {"wins", duel->wins},
          {"folder", text_or_null(duel->folder)}};
}

Document speedup_document(const TuneResult& tune) {
  if (!tune.best || !tune.baseline || !has_time(tune.baseline->result.outcome)) return nullptr;
  return number_or_null(tune.baseline->result.measurement.median_us / tune.best->result.measurement.median_us);
}

}  // namespace

Document search_document(const SearchRequest& request, const SearchResult& result) {
  const Subject& subject = result.subject;
  const TuneResult& tune = result.tune;
  Document document = {{"kernel", subject.kernel},
                       {"problem", subject.problem},
                       {"dimensions", assignment_document(subject.dimensions)},
                       {"device", device_document(subject.device)},
                       {"objective", objective_document(subject.objective)},
                       {"strategy", request.settings.strategy},
                       {"seed", request.settings.seed},
                       {"budget", request.settings.budget},
                       {"legal", result.legal},
                       {"trials", counts_document(tune.counts)}};
  document["best"] = tune.best ? best_document(subject, *tune.best) : Document(nullptr);
  document["timing"] = timing_name(result.timing);
  document["timings"] = timings_document(tune.timings, tune.best ? tune.best->config.text() : "");
  document["default"] = tune.baseline ? trial_document(*tune.baseline) : Document(nullptr);
  document["speedup"] = speedup_document(tune);
  document["confidence"] = subject.holds_times() ? confidence_document(tune.confidence) : Document(nullptr);
  document["contention"] = contention_document(tune.contention);
  document["histories"] = result.histories;
  document["proposer"] = proposer_document(result.proposer);
  document["variant"] = variant_document(result.variant);
  document["interrupted"] = tune.interrupted;
  document["provisional"] = tune.provisional;
  document["converged"] = tune.converged;
  document["exhausted"] = tune.exhausted;
  document["out_of_time"] = tune.out_of_time;
  document["tied_us"] = subject.holds_times() ? Document(tune.tied) : Document::array();
  document["compiled"] = result.compiled;
  document["cache"] = text_or_null(subject.cache);
  document["time"] = time_document(tune.time);
  document["wall_s"] = tune.time.wall;
  return document;
}

}  // namespace moetune
