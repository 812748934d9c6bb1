#include "jobs/bench_job.h"

#include "jobs/gpu_session.h"
#include "jobs/stored_candidate.h"
#include "tuner/quiet_watch.h"

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

std::vector<Contestant> contestants(Session& session, const BenchRequest& request, const Events& events,
                                    bool* winner_contended) {
  std::vector<Contestant> all;
  all.push_back({"winner", {.candidate = stored_candidate(session, events, winner_contended)}, true});
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

// Those that compiled meet in one duel. No rows if a stop request came first.
void measure(Session& session, const std::vector<Contestant>& all, const BenchRequest& request,
             const JobContext& context, BenchResult& result) try {
  session.device().open(*session.kernel(), session.problem(), request.seed);
  std::vector<Candidate> candidates;
  for (const Contestant& contestant : all) {
    if (contestant.attempt.outcome == Outcome::ok) candidates.push_back(contestant.attempt.candidate);
  }
  QuietWatch watch(session.device(), context.events, request.quiet_wait_s, context.stop);
  std::vector<TrialResult> results;
  result.contended = !watch.measure_quietly(
      [&] { results = session.device().duel(candidates, static_cast<int>(request.rounds)); });
  result.contention = watch.seen;
  auto next = results.begin();
  for (const Contestant& contestant : all) {
    BenchRow row = row_of(contestant);
    row.floor = session.floor(launches_of(contestant.attempt.candidate.plan));
    if (contestant.attempt.outcome == Outcome::ok) row.result = std::move(*next++);
    result.rows.push_back(std::move(row));
  }
} catch (const Stopped&) {
}

Document row_document(const Subject& subject, const BenchRow& row) {
  const TrialResult& result = row.result;
  const double time = result.measurement.median_us;
  const bool timed = has_time(result.outcome);
  Document document = {
      {"what", row.what},
      {"config", row.config.empty() ? Document(nullptr) : Document(row.config)},
      {"cubin", row.cubin.empty() ? Document(nullptr) : Document(row.cubin)},
      {"outcome", outcome_name(result.outcome)},
      {"message", result.message},
      {"time_us", timed ? number_or_null(time) : nullptr},
      {"interval_us",
       {number_or_null(result.measurement.low_us), number_or_null(result.measurement.high_us)}}};
  document.update(speed_document(subject.work, row.floor, timed ? time : 0));
  return document;
}

}  // namespace

BenchResult bench(const BenchRequest& request, const JobContext& context) {
  GpuSession opened(request.target, request.config, "bench", context);
  Session& session = opened.session;
  BenchResult result{.subject = session.subject()};
  const std::vector<Contestant> all = contestants(session, request, context.events, &result.winner_contended);
  context.events.emit(PhaseChanged{Phase::benchmarking});
  if (!context.stop.stop_requested()) measure(session, all, request, context, result);
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
  document["winner_contended"] = result.winner_contended;
  document["contended"] = result.contended;
  document["contention"] = contention_document(result.contention);
  document["interrupted"] = result.interrupted;
  return document;
}

}  // namespace moetune
