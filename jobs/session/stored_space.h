// The space and default of a stored workload's kernel, and whether the workload is of the templates that moetune has
// now. Reads embedded files once each; for the command's one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/kernel.h"
#include "keys/key.h"
#include "search/space.h"
#include "soundness/stored_key.h"
#include "tuner/ceilings.h"

namespace moetune {

class StoredSpaces {
 public:
  // Null where the kernel is not moetune's. Throws BadInput where its space file is broken.
  const Space* space(const WorkloadKey& key);

  // Whether the workload's sources are today's, a recording in progress included. Only then must its problem
  // and its configurations be ones that moetune knows; a source digest covers no space file, so that an
  // edited domain shows as unknown values.
  bool is_current(const WorkloadKey& key);

  // All of that, for soundness/. Valid as long as this object.
  KnownKernel known_kernel(const std::string& kernel, std::string_view source_digest);
  KnownWorkload known(const WorkloadKey& key);
  // Whether a record of today's sources with this configuration has been found sound.
  bool has_read(const std::string& kernel, const std::string& config);

  // The ceilings that the cache has of the workload's device, read once: for one cache.
  const Ceilings& ceilings(const Cache& cache, const WorkloadKey& key);

 private:
  struct Known {
    const Kernel* kernel;
    Space space;
    std::string source_digest;
    ParsedConfigs configs = {};
  };
  Known* find(const std::string& kernel);

  std::map<std::string, Known> known_;
  std::map<std::string, Ceilings> ceilings_;
  std::optional<HardwareKey> last_hardware_;  // of the workload that was asked for last
  const Ceilings* last_ceilings_ = nullptr;
};

}  // namespace moetune
