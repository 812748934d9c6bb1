#include "cli/stored_results.h"

#include "base/error.h"
#include "kernels/registry.h"
#include "tuner/ceilings.h"

namespace moetune {
namespace {

// The kernel's least bytes for a stored problem; 0 where this version does not know the kernel or the
// problem.
double bytes_of(const WorkloadKey& key) {
  for (const Kernel* kernel : all_kernels()) {
    if (kernel->name() != key.kernel) continue;
    try {
      return kernel->cost(parse_problem(key.kernel, kernel->schema(), nullptr, key.problem)).bytes;
    } catch (const BadInput&) {
      return 0;
    }
  }
  return 0;
}

}  // namespace

StoredResult read_result(const Cache& cache, const Workload& workload) {
  StoredResult result{.workload = workload};
  try {
    result.winner = cache.winner(workload.id);
  } catch (const DamagedWinner& error) {
    result.damage = error.what();
  }
  for (const TrialRecord& trial : cache.trials(workload.id)) {
    ++result.outcomes[trial.outcome];
    if (trial.outcome != outcome_name(Outcome::pruned)) ++result.trials;
    if (trial.outcome != outcome_name(Outcome::ok)) continue;
    if (result.best_us == 0 || trial.time_us < result.best_us) {
      result.best_us = trial.time_us;
      result.best_config = trial.config;
    }
  }
  result.bytes = bytes_of(workload.key);
  if (result.winner) {
    result.best_us = result.winner->time_us;
    result.best_config = result.winner->config;
    result.default_us = result.winner->default_time_us;
    result.roofline = result.winner->roofline;
  }
  const auto floor = stored_ceilings(&cache, workload.key.hardware).floor_us(result.bytes);
  if (floor && result.best_us > 0) result.roofline = *floor / result.best_us;
  return result;
}

std::optional<StoredResult> find_winner(const Cache& cache, const WorkloadKey& key) {
  std::optional<StoredResult> found;
  std::string damage;
  for (const Workload& workload : cache.workloads()) {
    const WorkloadKey& other = workload.key;
    if (is_recording(other) || other.kernel != key.kernel || other.problem != key.problem ||
        other.hardware.text() != key.hardware.text()) {
      continue;
    }
    const bool current = other.source_digest == key.source_digest && other.toolchain == key.toolchain;
    StoredResult result = read_result(cache, workload);
    if (!result.damage.empty()) {
      if (current) throw DamagedWinner(result.damage);
      damage = result.damage;
    }
    if (!result.winner) continue;
    if (current) return result;
    if (!found || result.winner->stored_at > found->winner->stored_at) found = std::move(result);
  }
  if (!found && !damage.empty()) throw DamagedWinner(damage);
  return found;
}

Document parse_stored(const std::string& text) {
  Document parsed = Document::parse(text, nullptr, false);
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
      {"recording", is_recording(key)},
      {"winner", result.winner.has_value()},
      {"damaged", !result.damage.empty()},
      {"config", result.best_config.empty() ? Document(nullptr) : Document(result.best_config)},
      {"time_us", number_or_null(result.best_us)},
      {"default_time_us", number_or_null(result.default_us)},
      {"speedup", number_or_null(result.speedup())},
      {"tb_s", number_or_null(result.tb_s())},
      {"roofline", number_or_null(result.roofline)}};
  document["trials"] = {{"total", result.trials}};
  for (const auto& [outcome, count] : result.outcomes) document["trials"][outcome] = count;
  document["stored_at"] = result.winner ? Document(result.winner->stored_at) : Document(nullptr);
  return document;
}

}  // namespace moetune
