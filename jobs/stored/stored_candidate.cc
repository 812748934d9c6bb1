#include "jobs/stored/stored_candidate.h"

#include <memory>

#include "jobs/range/served_table.h"
#include "jobs/stored/stored_results.h"
#include "kernels/plan_interface.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

// The values as they stand, with no space to check them against: the plan beside them is what runs, and the
// space may have changed since.
Config stored_config(const std::string& text) {
  Config config;
  for (const auto& [name, value] : split_assignment(text, "the stored configuration")) {
    config.set(name, Value::named(value, 0));
  }
  return config;
}

void warn(const Events& events, WarningKind kind, const std::string& text) { events.emit(Warning{kind, text}); }

void warn_of_sources(Session& session, const std::string& what, const std::string& sources,
                     const std::string& toolchain, const Events& events) {
  if (sources == session.key().source_digest && toolchain == session.key().toolchain) return;
  warn(
      events, WarningKind::other_sources,
      what + " was tuned with other sources or another compiler (" + toolchain + "); a new search would start afresh.");
}

StoredCandidate candidate_of(const StoredResult& found, Session& session, const Events& events) {
  const WorkloadKey& key = found.workload.key;
  warn_of_sources(session, "The stored winner", key.source_digest, key.toolchain, events);
  if (key.timing != session.key().timing) {
    warn(events, WarningKind::other_timing,
         "The stored winner is that of " + std::string(timing_name(key.timing)) + " launches; there is none of " +
             std::string(timing_name(session.key().timing)) + " ones.");
  }
  if (found.contended) {
    warn(events, WarningKind::contended_winner,
         "The stored winner is contended: it was measured while somebody else used the GPU. Search again when the "
         "GPU is quiet.");
  }
  if (found.is_provisional()) {
    warn(events, WarningKind::provisional_winner,
         "The stored winner is provisional: its search was interrupted before the best had met each other.");
  }
  return {from_winner(*found.winner, stored_config(found.winner->config)), "", "", found.contended};
}

// The table's choice with its cubin, which all of the family share. Throws BrokenEnvironment if the table lacks it.
StoredCandidate candidate_of(const ServedTable& table, Session& session, const Events& events) {
  const FamilyRange& range = table.range();
  const RangePicks::Pick choice = *table.at(session.problem());
  warn_of_sources(session, "The range table that serves here", range.key.source_digest, range.key.toolchain, events);
  const auto plan_of = [&](const std::string& config) {
    return session.kernel()->plan(session.space_file()->parse_config(config), session.problem(), session.info().limits);
  };
  try {
    const Plan plan = plan_of(choice.config);
    for (const FamilyRange::Variant& variant : range.variants) {
      const Plan made_for = plan_of(variant.config);
      if (!(made_for.unit == plan.unit) || interface_digest(made_for.unit, made_for) != variant.interface) continue;
      auto build = std::make_shared<Build>();
      build->outcome = Outcome::ok;
      build->cubin = session.cache()->winners.cubin(variant.cubin_digest);
      return {{session.space_file()->parse_config(choice.config), plan, std::move(build)},
              table.name(),
              choice.cell == nullptr ? "" : choice.cell->problem,
              false};
    }
  } catch (const BadInput& error) {
    throw BrokenEnvironment(table.name() + " of " + session.cache()->path().string() + ": " + error.what());
  }
  throw BrokenEnvironment(table.name() + " of " + session.cache()->path().string() + " lacks the cubin of " +
                          choice.config + ", or another moetune passed its parameters in another way");
}

}  // namespace

std::vector<StoredCandidate> stored_candidates(Session& session, const Events& events) {
  std::vector<StoredCandidate> all;
  std::optional<StoredResult> winner;
  if (Cache* const cache = session.cache()) {
    StoredSpaces spaces;
    winner = find_winner(*cache, session.key(), spaces);
    const auto table = find_served_table(*cache, *session.kernel(), session.info().key, session.problem());
    const bool stands_back =
        table != nullptr &&
        (!winner || winner->contended || table->supersedes(winner->workload.key.timing, winner->winner->stored_at));
    if (stands_back) all.push_back(candidate_of(*table, session, events));
    if (winner) all.push_back(candidate_of(*winner, session, events));
  }
  if (all.empty()) throw NothingTuned(session.kernel_name(), session.problem_text(), session.info().key.name);
  return all;
}

std::string cubin_source(const Candidate& candidate, bool stored) {
  if (stored) return "stored";
  return candidate.build != nullptr && candidate.build->seconds > 0 ? "compiled" : "cached";
}

}  // namespace moetune
