#include "jobs/bench_job.h"

#include "jobs/gpu_session.h"
#include "jobs/stored_candidate.h"

namespace moetune {
namespace {

struct Contestant {
  std::string what;
  Attempt attempt;
  bool stored = false;
};

// The same, started only once the kernel before it has ended; none if it never starts earlier.
std::optional<Candidate> without_overlap(Candidate candidate) {
  Launch& first = candidate.plan.launches.front();
  if (!first.programmatic_dependent) return std::nullopt;
  first.programmatic_dependent = false;
  return candidate;
}

std::vector<Contestant> contestants(Session& session, const BenchRequest& request, const Events& events) {
  std::vector<Contestant> all;
  all.push_back({"winner", {.candidate = stored_candidate(session, events)}, true});
  if (std::optional<Candidate> alone = without_overlap(all.front().attempt.candidate)) {
    all.push_back({"winner alone", {.candidate = *std::move(alone)}, true});
  }
  if (request.config) all.push_back({"config", session.try_compile(session.parse_config(*request.config))});
  if (session.default_config()) all.push_back({"default", session.try_compile(*session.default_config())});
  // In the problem's own types, as a plain implementation would be written; the exact reference writes f32.
  all.push_back(
      {"reference",
       session.try_compile(
           session.kernel()->reference(Reference::baseline, session.problem(), session.info().limits), {})});
  return all;
}

BenchRow row_of(const Contestant& contestant) {
  const auto& [candidate, outcome, message] = contestant.attempt;
  BenchRow row{.what = contestant.what,
               .config = candidate.config.text(),
               .result = {.outcome = outcome, .message = message}};
  if (outcome == Outcome::ok) row.cubin = cubin_source(candidate, contestant.stored);
  return row;
}

// Those that compiled meet in one duel. Empty if a stop request came first.
std::vector<BenchRow> measure(Session& session, const std::vector<Contestant>& all,
                              const BenchRequest& request) try {
  session.device().open(*session.kernel(), session.problem(), request.seed);
  std::vector<Candidate> candidates;
  for (const Contestant& contestant : all) {
    if (contestant.attempt.outcome == Outcome::ok) candidates.push_back(contestant.attempt.candidate);
  }
  std::vector<TrialResult> results = session.device().duel(candidates, static_cast<int>(request.rounds));
  std::vector<BenchRow> rows;
  auto next = results.begin();
  for (const Contestant& contestant : all) {
    rows.push_back(row_of(contestant));
    if (contestant.attempt.outcome == Outcome::ok) rows.back().result = std::move(*next++);
  }
  return rows;
} catch (const Stopped&) {
  return {};
}

Document row_document(const Subject& subject, const BenchRow& row) {
  const TrialResult& result = row.result;
  const double time = result.measurement.median_us;
  const bool timed = has_time(result.outcome);
  return {{"what", row.what},
          {"config", row.config.empty() ? Document(nullptr) : Document(row.config)},
          {"cubin", row.cubin.empty() ? Document(nullptr) : Document(row.cubin)},
          {"outcome", outcome_name(result.outcome)},
          {"message", result.message},
          {"time_us", timed ? number_or_null(time) : nullptr},
          {"interval_us",
           {number_or_null(result.measurement.low_us), number_or_null(result.measurement.high_us)}},
          {"tb_s", timed ? number_or_null(subject.tb_s(time)) : nullptr},
          {"roofline", timed ? number_or_null(subject.roofline(time)) : nullptr}};
}

}  // namespace

BenchResult bench(const BenchRequest& request, const JobContext& context) {
  GpuSession opened(request.target, request.config, "bench", context);
  Session& session = opened.session;
  const std::vector<Contestant> all = contestants(session, request, context.events);
  BenchResult result{.subject = session.subject()};
  context.events.emit(PhaseChanged{Phase::benchmarking});
  if (!context.stop.stop_requested()) result.rows = measure(session, all, request);
  result.programs_compiled = session.programs_compiled();
  result.interrupted = result.rows.empty();
  context.events.emit(Finished{result.interrupted});
  return result;
}

Document bench_document(const BenchResult& result) {
  Document document = subject_document(result.subject);
  document["programs_compiled"] = result.programs_compiled;
  document["rows"] = Document::array();
  for (const BenchRow& row : result.rows) document["rows"].push_back(row_document(result.subject, row));
  document["interrupted"] = result.interrupted;
  return document;
}

}  // namespace moetune
