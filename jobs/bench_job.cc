#include "jobs/bench_job.h"

#include <algorithm>

#include "jobs/session/gpu_session.h"
#include "jobs/stored/stored_candidate.h"
#include "tuner/quiet_watch.h"

namespace moetune {
namespace {

struct Contestant {
  std::string what;
  Attempt attempt;
  Timing timing = Timing::overlapped;
  bool stored = false;
  std::string table = {}, cell = {};
};

// Alone is no other thing than overlapped for a kernel that never starts early.
bool is_worth_a_row(const Candidate& candidate, Timing timing, Timing asked) {
  if (timing == asked) return false;
  if (timing == Timing::chained || asked == Timing::chained) return true;
  return candidate.plan.launches[0].programmatic_dependent;
}

// A configuration that was named can be measured where nothing is tuned.
std::vector<StoredCandidate> stored_if_any(Session& session, const BenchRequest& request, const Events& events) {
  try {
    return stored_candidates(session, events);
  } catch (const NothingTuned&) {
    if (!request.config) throw;
    return {};
  }
}

// The call of a caller of whom something is assumed. Throws BadField unless the kernel knows the assumption.
Call assuming_call(Session& session, const std::string& assumption) {
  const Kernel& kernel = *session.kernel();
  Call call = kernel.default_call(session.problem());
  set_assumption(call, kernel.call_schema(), kernel.name(), assumption);
  return call;
}

// Behind each configuration the same again, by a caller of whom something is assumed.
std::vector<Contestant> with_assumption(Session& session, const std::string& name, const Call& call,
                                        const std::vector<Contestant>& all) {
  const Kernel& kernel = *session.kernel();
  std::vector<Contestant> made;
  for (const Contestant& one : all) {
    made.push_back(one);
    if (one.attempt.outcome != Outcome::ok) continue;
    Contestant& assuming = made.emplace_back(one);
    assuming.what += " " + name;
    Candidate& candidate = assuming.attempt.candidate;
    candidate.plan = kernel.plan(candidate.config, session.problem(), call, session.info().limits);
  }
  return made;
}

std::vector<Contestant> contestants(Session& session, const BenchRequest& request, const Events& events,
                                    bool& winner_contended) {
  std::optional<Call> assuming;
  if (request.assume) assuming = assuming_call(session, *request.assume);
  std::vector<Contestant> all;
  const auto add = [&](const std::string& what, Attempt attempt, bool stored = false) {
    all.push_back({what, std::move(attempt), request.timing, stored});
  };
  const auto add_under_all_timings = [&](const std::string& what, const Attempt& attempt, bool stored) {
    add(what, attempt, stored);
    if (attempt.outcome != Outcome::ok) return;
    for (const Timing timing : kTimings) {
      if (is_worth_a_row(attempt.candidate, timing, request.timing))
        all.push_back({what + " " + std::string(timing_name(timing)), attempt, timing, stored});
    }
  };
  const std::vector<StoredCandidate> stored = stored_if_any(session, request, events);
  for (const StoredCandidate& one : stored) {
    winner_contended = winner_contended || one.contended;
    const std::size_t before = all.size();
    if (&one == &stored.front()) {
      add_under_all_timings(one.what(), {.candidate = one.candidate}, true);
    } else {
      add(one.what(), {.candidate = one.candidate}, true);
    }
    for (std::size_t i = before; i < all.size(); ++i) {
      all[i].table = one.table;
      all[i].cell = one.cell;
    }
  }
  if (request.config) {
    const Attempt named = session.try_compile(session.parse_config(*request.config));
    if (!stored.empty()) {
      add("config", named);
    } else {
      add_under_all_timings("config", named, false);
    }
  }
  if (session.default_config()) add("default", session.try_compile(*session.default_config()));
  if (assuming) all = with_assumption(session, *request.assume, *assuming, all);
  if (!session.kernel()->reference_computes()) return all;
  // In the problem's own types, as a plain implementation would be written; the exact reference writes f32.
  add("reference", session.try_compile(
                       session.kernel()->reference(Reference::baseline, session.problem(), session.info().limits), {}));
  return all;
}

BenchRow row_of(const Contestant& contestant) {
  const auto& [candidate, outcome, message] = contestant.attempt;
  BenchRow row{.what = contestant.what,
               .config = candidate.config.text(),
               .table = contestant.table,
               .cell = contestant.cell,
               .timing = contestant.timing,
               .result = {.outcome = outcome, .message = message}};
  if (outcome == Outcome::ok) row.cubin = cubin_source(candidate, contestant.stored);
  return row;
}

// Those of one timing that compiled meet in one duel. Those whose times depend on what power the others draw are then
// timed by themselves. Throws Stopped, without rows, after a stop request.
void measure(Session& session, const std::vector<Contestant>& all, const BenchRequest& request,
             const JobContext& context, BenchResult& result) {
  session.device().open(*session.kernel(), session.problem(), request.seed);
  QuietWatch watch(session.device(), context.events, request.quiet_wait_s, context.stop);
  std::vector<BenchRow> rows;
  for (const Contestant& contestant : all) {
    rows.push_back(row_of(contestant));
    rows.back().launches =
        contestant.timing == Timing::alone ? Launches::separate : launches_of(contestant.attempt.candidate.plan);
    rows.back().floor = session.floor(rows.back().launches);
  }
  const auto duel = [&](const std::vector<Candidate>& candidates, Timing timing) {
    std::vector<TrialResult> results;
    const bool sound = watch.measure_quietly([&] {
      results = session.device().duel(candidates, {static_cast<int>(request.rounds), timing});
    });
    result.contended = !sound || result.contended;
    return results;
  };
  for (const Timing timing : kTimings) {
    std::vector<Candidate> candidates;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].timing != timing || all[i].attempt.outcome != Outcome::ok) continue;
      candidates.push_back(all[i].attempt.candidate);
      places.push_back(i);
    }
    if (candidates.empty()) continue;
    const std::vector<TrialResult> results = duel(candidates, timing);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool alone = candidates.size() > 1 && results[i].measurement.follows_clock;
      rows[places[i]].result = alone ? duel({candidates[i]}, timing).front() : results[i];
    }
  }
  result.contention = watch.seen;
  result.rows = std::move(rows);
}

Document row_document(const Subject& subject, const BenchRow& row) {
  const TrialResult& result = row.result;
  const Measurement& measured = result.measurement;
  const double time = measured.median_us;
  const bool timed = has_time(result.outcome);
  Document document = {{"what", row.what},
                       {"timing", timing_name(row.timing)},
                       {"config", text_or_null(row.config)},
                       {"cubin", text_or_null(row.cubin)},
                       {"table", text_or_null(row.table)},
                       {"cell", text_or_null(row.cell)},
                       {"outcome", outcome_name(result.outcome)},
                       {"message", result.message},
                       {"time_us", timed ? number_or_null(time) : nullptr},
                       {"interval_us", {number_or_null(measured.low_us), number_or_null(measured.high_us)}}};
  if (measured.sm_clock_mhz > 0) document["sm_clock_mhz"] = measured.sm_clock_mhz;
  if (!measured.settled) document["unsettled"] = true;
  document.update(speed_document(subject.work, row.floor, timed ? time : 0));
  return document;
}

}  // namespace

BenchResult bench(const BenchRequest& request, const JobContext& context) {
  Session session = gpu_session(request.target, request.config, "bench", context, request.timing);
  BenchResult result{.subject = session.subject()};
  try {
    const std::vector<Contestant> all = contestants(session, request, context.events, result.winner_contended);
    context.events.emit(PhaseChanged{Phase::benchmarking});
    if (!context.stop.stop_requested()) measure(session, all, request, context, result);
  } catch (const Stopped&) {
  }
  result.programs_compiled = session.programs_compiled();
  result.interrupted = result.rows.empty();
  if (!result.interrupted) result.floors = floors_of(session.cost(), session.ceilings(), result.rows.front().launches);
  context.events.emit(Finished{result.interrupted});
  return result;
}

ProfileTarget profile_target(const BenchRequest& request, const JobContext& context) {
  Session session = gpu_session(request.target, request.config, "bench", context, request.timing);
  ProfileTarget target{.subject = session.subject(), .what = "config"};
  Candidate candidate;
  if (request.config) {
    candidate = session.compile(session.parse_config(*request.config));
  } else {
    StoredCandidate served = stored_candidates(session, context.events).front();
    target.what = served.what();
    candidate = std::move(served.candidate);
  }
  target.config = candidate.config.text();
  target.cubin = cubin_source(candidate, !request.config);
  target.launches = candidate.plan.launches.size();
  for (const Launch& launch : candidate.plan.launches) {
    const std::string entry(launch.entry.text());
    if (std::ranges::find(target.entries, entry) == target.entries.end()) target.entries.push_back(entry);
  }
  context.events.emit(Finished{false});
  return target;
}

Document bench_document(const BenchResult& result) {
  Document document = subject_document(result.subject);
  document["programs_compiled"] = result.programs_compiled;
  document["rows"] = Document::array();
  for (const BenchRow& row : result.rows) document["rows"].push_back(row_document(result.subject, row));
  document["floors"] = Document::array();
  for (const Floor& floor : result.floors)
    document["floors"].push_back({{"ceiling", floor.bound}, {"us", floor.us}, {"amount", floor.work.amount}});
  document["winner_contended"] = result.winner_contended;
  document["contended"] = result.contended;
  document["contention"] = contention_document(result.contention);
  document["interrupted"] = result.interrupted;
  return document;
}

}  // namespace moetune
