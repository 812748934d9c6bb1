// What a Cache holds; shared by the files that implement its parts (trials, winners, builds, checks).
#pragma once

#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/database.h"
#include "cache/search_locks.h"

namespace moetune {

struct Cache::Impl {
  Database database;
  CacheOptions options;
  bool read_only = false;
  std::string warning;
  SearchLocks searches;

  // The id of a hardware row, inserted where it is new and brought up to the present driver. Within a
  // transaction.
  std::int64_t hardware(const HardwareKey& key) const;
  std::optional<std::int64_t> find_hardware(const HardwareKey& key) const;
};

// Digests over all that a launch of the record depends on.
std::string winner_digest(const std::string& config, const std::string& plan, const Blob& cubin);
std::string build_digest(const BuildRecord& build);

}  // namespace moetune
