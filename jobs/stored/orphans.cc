#include "jobs/stored/orphans.h"

#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "jobs/session/stored_space.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

using TunedProblem = std::tuple<std::string, std::string, std::string>;  // kernel, problem, hardware

TunedProblem tuned_problem(const WorkloadKey& key) { return {key.kernel, key.problem, key.hardware.text()}; }

bool is_problem(const WorkloadKey& key) {
  try {
    stored_problem(*known_kernel(key.kernel), key);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

}  // namespace

std::function<bool(const Workload&)> orphan_rule(const Cache& cache) {
  const auto spaces = std::make_shared<StoredSpaces>();
  std::set<TunedProblem> tuned;
  for (const Workload& workload : cache.workloads.all()) {
    if (!is_recording(workload.key) && spaces->is_current(workload.key) && cache.winners.find_sound(workload.id))
      tuned.insert(tuned_problem(workload.key));
  }
  return [spaces, tuned](const Workload& workload) {
    const WorkloadKey& key = workload.key;
    if (key.hardware.origin != "gpu" || spaces->space(key) == nullptr || spaces->is_current(key)) return false;
    return is_recording(key) || tuned.contains(tuned_problem(key)) || !is_problem(key);
  };
}

}  // namespace moetune
