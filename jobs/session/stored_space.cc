#include "jobs/session/stored_space.h"

#include "base/error.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {

StoredSpaces::Known* StoredSpaces::find(const std::string& kernel) {
  if (known_kernel(kernel) == nullptr) return nullptr;
  auto found = known_.find(kernel);
  if (found == known_.end())
    found = known_.emplace(kernel, Known{load_space(kernel), kernel_source_digest(kernel)}).first;
  return &found->second;
}

const Space* StoredSpaces::space(const WorkloadKey& key) {
  const Known* known = find(key.kernel);
  return known == nullptr ? nullptr : &known->space;
}

bool StoredSpaces::is_current(const WorkloadKey& key) {
  std::string_view digest = key.source_digest;
  if (is_recording(key)) digest.remove_prefix(kRecordingMark.size());
  const Known* known = find(key.kernel);
  return known != nullptr && known->source_digest == digest;
}

const Ceilings& StoredSpaces::ceilings(const Cache& cache, const WorkloadKey& key) {
  const auto [found, is_new] = ceilings_.try_emplace(key.hardware.text());
  if (is_new) found->second = stored_ceilings(&cache, key.hardware);
  return found->second;
}

std::optional<Config> StoredSpaces::default_config(const WorkloadKey& key) {
  const Space* known = space(key);
  if (known == nullptr) return std::nullopt;
  try {
    const Problem problem = stored_problem(find_kernel(key.kernel), key);
    return known->default_config(expression_environment(problem, stored_limits(key.hardware)));
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

KnownKernel StoredSpaces::known(const WorkloadKey& key) {
  return {known_kernel(key.kernel), space(key), is_current(key)};
}

}  // namespace moetune
