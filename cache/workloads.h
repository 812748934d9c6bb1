// The workloads of a cache file, which its trials and winners belong to, each by a number.
//
// A part of an open Cache (cache/cache.h), which must outlive it; threads and errors as there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "keys/key.h"

namespace moetune {

struct CacheFile;

struct Workload {
  std::int64_t id = 0;
  WorkloadKey key;
  std::string family;  // as it was stored; "" if it is unknown
};

class Workloads {
 public:
  explicit Workloads(CacheFile& file) : file_(&file) {}

  // The id of a workload, inserted if it is new. `family` names its kernel's family; "" if that is unknown.
  std::int64_t id(const WorkloadKey& key, const std::string& family = "");
  std::optional<std::int64_t> find(const WorkloadKey& key) const;
  std::optional<Workload> find(std::int64_t id) const;
  // Those of one problem on one device, whatever they were made with.
  std::vector<Workload> of(const std::string& kernel, const std::string& problem, const HardwareKey& hardware) const;
  std::vector<Workload> all() const;

  // Removes the workload with its trials and its winner. Throws BrokenEnvironment while a search works on it.
  void forget(std::int64_t workload);
  // Says that a search works on the workload until the Cache is closed or its process ends. From then on a thread
  // carries what is committed into the main file (cache/log_keeper.h), which is marked as written to.
  void begin_search(std::int64_t workload);

 private:
  CacheFile* file_;
};

}  // namespace moetune
