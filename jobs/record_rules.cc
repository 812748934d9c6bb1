#include "jobs/record_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "cache/ranges.h"
#include "jobs/stored_results.h"
#include "jobs/stored_space.h"
#include "jobs/winner_truths.h"
#include "kernels/registry.h"
#include "ranges/range_table.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

bool is_time(double us) { return std::isfinite(us) && us > 0; }

bool is_time_or_unknown(double us) { return us == 0 || is_time(us); }

// A kernel that is not moetune's comes with a recording, and then has no sources.
std::string wrong_kernel(const WorkloadKey& key) {
  if (key.hardware.origin != "gpu" && key.source_digest.empty()) return "";
  std::vector<std::string> names;
  for (const Kernel* kernel : all_kernels()) names.push_back(kernel->name());
  return unknown_name("kernel", key.kernel, names);
}

// Of other sources a dimension may have had another name or range; what is no list of values never was one.
std::string wrong_problem(const Kernel& kernel, const WorkloadKey& key, StoredSpaces& spaces) {
  try {
    if (split_assignment(key.problem, "its problem").empty()) return "its problem is empty";
  } catch (const BadInput& error) {
    return error.what();
  }
  if (!spaces.is_current(key)) return "";
  try {
    const Problem problem = stored_problem(kernel, key);
    return problem.text() == key.problem ? "" : "its problem should be written " + problem.text();
  } catch (const BadInput& error) {
    return std::string("its problem: ") + error.what();
  }
}

std::string wrong_workload(const WorkloadKey& key, StoredSpaces& spaces) {
  const Kernel* const kernel = known_kernel(key.kernel);
  return kernel == nullptr ? wrong_kernel(key) : wrong_problem(*kernel, key, spaces);
}

// Of a kernel that is not moetune's the values are whatever its recording wrote; of other sources, what the
// space had then.
std::string wrong_config(const WorkloadKey& key, const std::string& config, StoredSpaces& spaces) {
  const Space* const space = spaces.space(key);
  if (space == nullptr) return "";
  try {
    if (split_assignment(config, "its configuration").empty()) return "its configuration is empty";
  } catch (const BadInput& error) {
    return error.what();
  }
  if (!spaces.is_current(key)) return "";
  try {
    const Config known = space->parse_config(config);
    return known.text() == config ? "" : "its configuration should be written " + known.text();
  } catch (const BadInput& error) {
    return std::string("its configuration: ") + error.what();
  }
}

std::string wrong_interval(double low_us, double high_us) {
  if (is_time(low_us) && is_time(high_us) && low_us <= high_us) return "";
  return format("its interval is %g to %g µs", low_us, high_us);
}

std::string wrong_json(const char* what, const std::string& text) {
  return parse_stored(text).is_object() ? "" : std::string("its ") + what + " cannot be read as JSON";
}

std::string first_wrong(std::initializer_list<std::string> sentences) {
  for (const std::string& sentence : sentences) {
    if (!sentence.empty()) return sentence;
  }
  return "";
}

std::string wrong_trial(const WorkloadKey& key, const TrialRecord& trial, StoredSpaces& spaces) {
  const std::optional<Outcome> outcome = outcome_from_name(trial.outcome);
  if (!outcome) return "its outcome '" + trial.outcome + "' is unknown";
  const bool timed = has_time(*outcome);
  if (timed && !is_time(trial.time_us)) {
    return "it is " + trial.outcome + format(" but took %g µs", trial.time_us);
  }
  const bool exact = *outcome == Outcome::ok;
  return first_wrong({exact ? wrong_interval(trial.interval_low_us, trial.interval_high_us) : "",
                      trial.samples < 0 ? format("it has %d samples", trial.samples) : "",
                      wrong_config(key, trial.config, spaces), wrong_json("facts", trial.facts),
                      wrong_json("provenance", trial.provenance)});
}

std::string wrong_plan(const WinnerRecord& winner) {
  try {
    from_winner(winner, Config{});
    return "";
  } catch (const OtherPlanVersion&) {
    return "";  // sound, and of no use to this version
  } catch (const std::exception& error) {
    return std::string("its launch plan cannot be read: ") + error.what();
  }
}

std::string wrong_winner(const WorkloadKey& key, const WinnerRecord& winner, StoredSpaces& spaces) {
  if (!is_time(winner.time_us)) return format("it took %g µs", winner.time_us);
  if (!is_time_or_unknown(winner.default_time_us)) {
    return format("the default beside it took %g µs", winner.default_time_us);
  }
  if (!std::isfinite(winner.roofline) || winner.roofline < 0)
    return format("its roofline fraction is %g", winner.roofline);
  return first_wrong({wrong_interval(winner.interval_low_us, winner.interval_high_us),
                      wrong_config(key, winner.config, spaces), wrong_plan(winner),
                      winner.cubin.empty() ? "its cubin is empty" : "", untrue_winner(key, winner, spaces),
                      wrong_json("provenance", winner.provenance)});
}

// What of a workload with other sources moetune knows no more; "" for nothing.
std::string outdated(const Cache& cache, const Workload& workload, const Space& space) {
  try {
    stored_problem(find_kernel(workload.key.kernel), workload.key);
  } catch (const BadInput& error) {
    return std::string("is of a problem that is none today: ") + error.what();
  }
  const LegalSpace domains(space.parameters(), {});
  const auto is_strange = [&](const auto& record) { return !domains.point_of(record.config); };
  const std::vector<TrialRecord> trials = cache.trials(workload.id);
  const auto strange = std::count_if(trials.begin(), trials.end(), is_strange);
  const std::optional<WinnerRecord> winner = cache.winner(workload.id);
  const bool strange_winner = winner && is_strange(*winner);
  if (strange == 0 && !strange_winner) return "";
  return format("has %lld of %zu trials%s with parameters or values that are none today",
                static_cast<long long>(strange), trials.size(), strange_winner ? ", and a winner," : "");
}

}  // namespace

RangeMerit merit_of_range(const std::string& text) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  constexpr double kSizesAnOctave = 8;  // two searches that come to their ends have nearly as many cells
  try {
    const RangeTable table = RangeTable::parse(text, "a range table");
    const double regret = std::max(table.worst_cell(), table.certificate.worst);
    return {.contended = table.contended,
            .coarseness = -static_cast<int>(kSizesAnOctave * std::log2(1 + table.cells.size())),
            .regret = table.certificate.shapes == 0 ? kUnknown : regret};
  } catch (const BadInput&) {  // of another version
    return {.contended = true, .regret = kUnknown};
  }
}

RecordRules record_rules() {
  const auto spaces = std::make_shared<StoredSpaces>();
  return {.workload = [spaces](const WorkloadKey& key) { return wrong_workload(key, *spaces); },
          .trial = [spaces](const WorkloadKey& key,
                            const TrialRecord& trial) { return wrong_trial(key, trial, *spaces); },
          .winner = [spaces](const WorkloadKey& key,
                             const WinnerRecord& winner) { return wrong_winner(key, winner, *spaces); },
          .range_merit = merit_of_range};
}

std::vector<CacheProblem> outdated_workloads(const Cache& cache) {
  std::vector<CacheProblem> found;
  StoredSpaces spaces;
  for (const Workload& workload : cache.workloads()) {
    const WorkloadKey& key = workload.key;
    const Space* const space = spaces.space(key);
    if (space == nullptr || spaces.is_current(key)) continue;
    const std::string what = outdated(cache, workload, *space);
    if (what.empty()) continue;
    found.push_back({format("workload %lld (%s %s)", static_cast<long long>(workload.id), key.kernel.c_str(),
                            key.problem.c_str()),
                     "was tuned with other sources, and " + what});
  }
  return found;
}

}  // namespace moetune
