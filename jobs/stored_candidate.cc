#include "jobs/stored_candidate.h"

#include "jobs/stored_results.h"
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

}  // namespace

Candidate stored_candidate(Session& session, const Events& events, bool* contended) {
  std::optional<StoredResult> found;
  if (session.cache() != nullptr) found = find_winner(*session.cache(), session.key());
  if (!found) throw NothingTuned(session.kernel_name(), session.problem_text(), session.info().key.name);
  const WorkloadKey& key = found->workload.key;
  if (key.source_digest != session.key().source_digest || key.toolchain != session.key().toolchain) {
    const std::string text = "The stored winner was tuned with other sources or another compiler (" +
                             key.toolchain + "); a new search would start afresh.";
    events.emit(Warning{WarningKind::other_sources, text});
  }
  if (key.timing != session.key().timing) {
    events.emit(Warning{WarningKind::other_timing,
                        "The stored winner is that of " + std::string(timing_name(key.timing)) +
                            " launches; there is none of " + std::string(timing_name(session.key().timing)) +
                            " ones."});
  }
  if (found->contended) {
    const std::string text =
        "The stored winner is contended: it was measured while somebody else used the GPU. Search again when the "
        "GPU is quiet.";
    events.emit(Warning{WarningKind::contended_winner, text});
  }
  if (contended != nullptr) *contended = found->contended;
  return from_winner(*found->winner, stored_config(found->winner->config));
}

std::string cubin_source(const Candidate& candidate, bool stored) {
  if (stored) return "stored";
  return candidate.build != nullptr && candidate.build->seconds > 0 ? "compiled" : "cached";
}

}  // namespace moetune
