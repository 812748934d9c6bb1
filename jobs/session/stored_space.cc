#include "jobs/session/stored_space.h"

#include "base/error.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune {

StoredSpaces::Known* StoredSpaces::find(const std::string& kernel) {
  auto found = known_.find(kernel);
  if (found != known_.end()) return &found->second;
  const Kernel* const known = moetune::known_kernel(kernel);
  if (known == nullptr) return nullptr;
  return &known_.emplace(kernel, Known{known, load_space(kernel), kernel_source_digest(kernel)}).first->second;
}

KnownKernel StoredSpaces::known_kernel(const std::string& kernel, std::string_view source_digest) {
  Known* const known = find(kernel);
  if (known == nullptr) return {};
  if (source_digest.starts_with(kRecordingMark)) source_digest.remove_prefix(kRecordingMark.size());
  return {known->kernel, &known->space, known->source_digest == source_digest, &known->configs};
}

const Space* StoredSpaces::space(const WorkloadKey& key) { return known_kernel(key.kernel, "").space; }

bool StoredSpaces::is_current(const WorkloadKey& key) { return known_kernel(key.kernel, key.source_digest).is_current; }

const Ceilings& StoredSpaces::ceilings(const Cache& cache, const WorkloadKey& key) {
  if (last_hardware_ && last_hardware_->is_same(key.hardware)) return *last_ceilings_;
  const auto [found, is_new] = ceilings_.try_emplace(key.hardware.text());
  if (is_new) found->second = stored_ceilings(&cache, key.hardware);
  last_hardware_ = key.hardware;
  last_ceilings_ = &found->second;
  return found->second;
}

bool StoredSpaces::has_read(const std::string& kernel, const std::string& config) {
  const Known* const known = find(kernel);
  return known != nullptr && known->configs.contains(config);
}

KnownWorkload StoredSpaces::known(const WorkloadKey& key) {
  return known_workload(key, known_kernel(key.kernel, key.source_digest));
}

}  // namespace moetune
