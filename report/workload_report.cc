#include "report/workload_report.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_fields.h"

namespace moetune {
namespace {

std::optional<std::int64_t> number_field(const nlohmann::json& object, const char* name) {
  const nlohmann::json& number = field(object, name);
  return number.is_number_integer() ? std::optional(number.get<std::int64_t>()) : std::nullopt;
}

// The interval of the trial that stands for the winner.
void take_interval(WorkloadReport& report, const Cache& cache) {
  if (report.stored.winner) {
    report.low_us = report.stored.winner->interval_low_us;
    report.high_us = report.stored.winner->interval_high_us;
    return;
  }
  if (report.stored.best_config.empty()) return;
  for (const TrialRecord& trial : cache.trials.of(report.stored.workload.id)) {
    if (trial.config != report.stored.best_config) continue;
    report.low_us = trial.interval_low_us;
    report.high_us = trial.interval_high_us;
  }
}

}  // namespace

Origin origin_of(const std::string& provenance) {
  const nlohmann::json document = parse_json_or_discard(provenance);
  return {.strategy = text_field(document, "strategy"),
          .device = text_field(document, "device"),
          .driver = text_field(document, "driver"),
          .version = text_field(document, "moetune"),
          .judged = text_field(document, "judged"),
          .trials = number_field(document, "trials"),
          .seed = number_field(document, "seed")};
}

std::vector<std::string> workload_notes(const WorkloadReport& report) {
  std::vector<std::string> notes;
  const auto note = [&](bool holds, const char* word) {
    if (holds) notes.emplace_back(word);
  };
  const bool built = report.stored.winner || !report.stored.damage.empty();
  note(!report.stored.damage.empty(), "damaged");
  note(report.stored.contended, "contended");
  note(report.stored.is_provisional(), "provisional");
  note(!report.stale.empty(), "stale");
  note(!report.inherited_by.empty(), "inherited");
  note(!built && report.kept != 0, "lost duel");
  note(!built && report.kept == 0, "no cubin");
  return notes;
}

WorkloadReport read_workload(const Cache& cache, const Workload& workload, StoredSpaces& spaces, WinnerParts parts) {
  WorkloadReport report{.stored = read_result(cache, workload, spaces, parts)};
  if (const std::optional<Problem>& problem = report.stored.known.problem) {
    report.dims = problem->dims;
    report.family = report.stored.known.family;
  }
  take_interval(report, cache);
  if (const std::optional<WinnerRecord>& winner = report.stored.winner) {
    report.stored_at = winner->stored_at;
    report.origin = origin_of(winner->provenance);
  }
  report.history = cache.winners.history(workload.id);
  if (!report.history.empty()) {
    const Generation& last = report.history.front();
    report.before = {last.time_us,   last.interval_low_us, last.interval_high_us,
                     last.stored_at, last.config,          last.reason};
  }
  return report;
}

}  // namespace moetune
