#include "jobs/stored/stored_results.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/stored_time.h"
#include "soundness/soundness.h"
#include "tuner/ceilings.h"
#include "tuner/finals.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// Zero if this version does not know the kernel or the problem.
Cost cost_of(const KnownWorkload& known) {
  if (!known.problem) return {};
  try {
    return known.kernel->cost(*known.problem);
  } catch (const BadInput&) {
    return {};
  }
}

// The launches of the stored winner's plan, by the first launch's field in its text. Without one launches may overlap,
// which gives the lower floor.
Launches launches_of(const std::optional<WinnerRecord>& winner) {
  constexpr std::string_view kField = R"("programmatic_dependent":)";
  const std::string_view plan = winner ? std::string_view(winner->plan) : "";  // memmem wants an address
  const auto* const at = static_cast<const char*>(::memmem(plan.data(), plan.size(), kField.data(), kField.size()));
  const bool waits = at != nullptr && plan.substr(at - plan.data() + kField.size()).starts_with("false");
  return waits ? Launches::separate : Launches::overlapping;
}

// The positions of a stored configuration; nullopt where it is none of the space that the kernel has now.
std::optional<std::vector<Position>> point_of(const LegalSpace& domains, const std::string& config) {
  try {
    return domains.point_of(config);
  } catch (const BadInput&) {  // not even a list of values: `cache check` names it
    return std::nullopt;
  }
}

// With the ids that the rows of a space would have: the order of positions. nullopt where a configuration is
// none of the space.
std::optional<std::vector<Trial>> timed_trials(const std::vector<TrialRecord>& records, const Space& space) {
  const LegalSpace domains(space.parameters(), {});
  std::map<std::vector<Position>, TrialResult> by_position;
  for (const TrialRecord& record : records) {
    std::optional<TrialResult> result = from_record(record);
    if (!result || !has_time(result->outcome)) continue;
    const std::optional<std::vector<Position>> point = point_of(domains, record.config);
    if (!point) return std::nullopt;
    by_position.emplace(*point, *std::move(result));
  }
  std::vector<Trial> trials;
  for (auto& [point, result] : by_position) {
    Trial trial{.id = static_cast<ConfigId>(trials.size()), .result = std::move(result)};
    for (std::size_t p = 0; p < point.size(); ++p)
      trial.config.set(domains.parameters()[p].name, domains.parameters()[p].values[point[p]]);
    trials.push_back(std::move(trial));
  }
  return trials;
}

// As many as meet in a duel, and the default with them.
std::vector<Trial> best_trials(std::vector<Trial> trials, std::optional<ConfigId> default_id) {
  const auto rank = [](const Trial& trial) {
    return std::tuple(trial.result.outcome != Outcome::ok, trial.result.measurement.median_us, trial.id);
  };
  std::sort(trials.begin(), trials.end(), [&](const Trial& a, const Trial& b) { return rank(a) < rank(b); });
  std::vector<Trial> best;
  for (Trial& trial : trials) {
    if (best.size() < TuneRequest().finalists || trial.id == default_id) best.push_back(std::move(trial));
  }
  return best;
}

void take(StoredResult& result, const std::string& config, double time_us, bool contended) {
  result.best_config = config;
  result.best_us = time_us;
  result.contended = contended;
}

// Those to choose from: with times that can be, and contended ones only if no other is ok.
std::vector<TrialRecord> trusted(std::vector<TrialRecord> records) {
  std::erase_if(records, [](const TrialRecord& record) {
    return record.outcome == outcome_name(Outcome::ok) && !is_stored_time(record.time_us);
  });
  const auto is_sound = [](const TrialRecord& record) {
    return record.outcome == outcome_name(Outcome::ok) && !record.contended;
  };
  if (std::any_of(records.begin(), records.end(), is_sound))
    std::erase_if(records, [](const TrialRecord& record) { return record.contended; });
  return records;
}

// The default in a search of the workload; nullopt if it is not known.
std::optional<Config> default_config(const KnownWorkload& known) {
  if (!known.problem || !known.limits) return std::nullopt;
  try {
    return known.space->default_config(expression_environment(*known.problem, *known.limits));
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

// As a search's finals choose (tuner/finals.h), with the trials' times for the duel's. Of an
// unknown space neither the default nor the order is known: there the fastest, as rank_recorded() has it.
void choose_best(StoredResult& result, const std::vector<TrialRecord>& records) {
  std::optional<std::vector<Trial>> trials;
  if (result.known.space != nullptr) trials = timed_trials(records, *result.known.space);
  if (!trials) {
    const auto rank = [](const TrialRecord& record) { return std::pair(record.time_us, record.config); };
    const TrialRecord* best = nullptr;
    for (const TrialRecord& record : records) {
      if (record.outcome != outcome_name(Outcome::ok)) continue;
      if (best == nullptr || rank(record) < rank(*best)) best = &record;
    }
    if (best != nullptr) take(result, best->config, best->time_us, best->contended);
    return;
  }
  std::optional<ConfigId> default_id;
  if (const std::optional<Config> config = default_config(result.known)) {
    for (const Trial& trial : *trials) {
      if (trial.config.text() == config->text()) default_id = trial.id;
    }
  }
  if (default_id) result.default_us = (*trials)[*default_id].result.measurement.median_us;
  const std::vector<Trial> finalists = best_trials(*std::move(trials), default_id);
  if (finalists.empty()) return;
  const Trial& best = finalists[rank_duel(finalists, default_id).front()];
  if (best.result.outcome != Outcome::ok) return;
  take(result, best.config.text(), best.result.measurement.median_us, best.result.contended);
}

std::optional<WinnerRecord> true_winner(const Cache& cache, const Workload& workload, WinnerParts parts,
                                        const KnownWorkload& known) {
  std::optional<WinnerRecord> winner = cache.winners.read(workload.id, parts);
  const std::string wrong = winner ? why_unsound(workload, *winner, parts, known) : "";
  if (wrong.empty()) return winner;
  throw DamagedWinner("the winner of workload " + std::to_string(workload.id) + " in " + cache.path().string() +
                      " cannot be true (" + wrong + "); search again to replace it");
}

}  // namespace

StoredResult read_result(const Cache& cache, const Workload& workload, StoredSpaces& spaces, WinnerParts parts) {
  StoredResult result{.workload = workload, .known = spaces.known(workload.key)};
  try {
    result.winner = true_winner(cache, workload, parts, result.known);
  } catch (const DamagedWinner& error) {
    result.damage = error.what();
  }
  result.outcomes = cache.trials.counts(workload.id);
  for (const auto& [outcome, count] : result.outcomes)
    if (outcome != outcome_name(Outcome::pruned)) result.trials += count;
  if (result.winner) {
    take(result, result.winner->config, result.winner->time_us, result.winner->contended);
    result.default_us = result.winner->default_time_us;
    result.roofline = result.winner->roofline;
  } else {
    choose_best(result, trusted(cache.trials.of(workload.id)));
  }
  result.cost = cost_of(result.known);
  const std::optional<Floor> floor =
      floor_of(result.cost, spaces.ceilings(cache, workload.key), launches_of(result.winner));
  result.work = work_of(result.cost, floor);
  if (parts == WinnerParts::figures && result.winner) result.winner->plan = {};  // thousands are kept
  if (floor && result.best_us > 0) {
    result.roofline = floor->roofline_fraction(result.best_us);
    result.bound = floor->bound;
  }
  return result;
}

std::optional<StoredResult> find_winner(const Cache& cache, const WorkloadKey& key, StoredSpaces& spaces) {
  std::optional<StoredResult> found;
  std::string damage;
  for (const Workload& workload : cache.workloads.of(key.kernel, key.problem, key.hardware)) {
    const WorkloadKey& other = workload.key;
    if (is_recording(other)) continue;
    const bool made_alike = other.source_digest == key.source_digest && other.toolchain == key.toolchain;
    const bool current = made_alike && other.timing == key.timing;
    StoredResult result = read_result(cache, workload, spaces, WinnerParts::all);
    if (!result.damage.empty()) {
      if (current) throw DamagedWinner(result.damage);
      damage = result.damage;
    }
    if (!result.winner) continue;
    if (current) return result;
    const auto rank = [&](const StoredResult& one) {
      return std::pair(one.workload.key.timing == key.timing, one.winner->stored_at);
    };
    if (!found || rank(result) > rank(*found)) found = std::move(result);
  }
  if (!found && !damage.empty()) throw DamagedWinner(damage);
  return found;
}

bool StoredResult::is_provisional() const { return winner && moetune::is_provisional(winner->provenance); }

std::string source_of(const std::string& provenance, const char* name) {
  const Document source = parse_stored(provenance);
  if (!source.is_object() || !source.contains(name) || !source[name].is_string()) return "";
  return source[name].get<std::string>();
}

Document parse_stored(const std::string& text) {
  Document parsed = parse_json_or_discard(text);
  return parsed.is_discarded() ? Document(nullptr) : parsed;
}

Document result_document(const StoredResult& result) {
  const WorkloadKey& key = result.workload.key;
  Document document = {
      {"id", result.workload.id},
      {"kernel", key.kernel},
      {"problem", key.problem},
      {"hardware",
       {{"name", key.hardware.name},
        {"compute_capability", key.hardware.compute_capability},
        {"origin", key.hardware.origin},
        {"key", key.hardware.text()},
        {"driver", key.hardware.driver}}},
      {"source_digest", key.source_digest},
      {"toolchain", key.toolchain},
      {"timing", timing_name(key.timing)},
      {"timings",
       result.winner ? timings_document(parse_timings(result.winner->timings), result.best_config) : Document(nullptr)},
      {"recorded", key.hardware.origin != "gpu"},
      {"recording", is_recording(key)},
      {"winner", result.winner.has_value()},
      {"damaged", !result.damage.empty()},
      {"contended", result.contended},
      {"provisional", result.is_provisional()},
      {"config", text_or_null(result.best_config)},
      {"time_us", number_or_null(result.best_us)},
      {"default_time_us", number_or_null(result.default_us)},
      {"speedup", number_or_null(result.speedup())},
      {"tb_s", result.work.unit == Unit::tb_s ? number_or_null(result.rate().value) : nullptr},
      {"tflop_s", result.work.unit == Unit::tflop_s ? number_or_null(result.rate().value) : nullptr},
      {"roofline", number_or_null(result.roofline)},
      {"bound", text_or_null(result.bound)}};
  document["trials"] = {{"total", result.trials}};
  for (const auto& [outcome, count] : result.outcomes) document["trials"][outcome] = count;
  document["stored_at"] = result.winner ? Document(result.winner->stored_at) : Document(nullptr);
  return document;
}

}  // namespace moetune
