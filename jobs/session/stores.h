// Chooses the cache file of a job, and opens it by the rules of record_rules.h. A Cache belongs to the thread that
// opens it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cache/cache.h"

namespace moetune {

struct CacheChoice {
  std::string path;        // empty: the usual one
  std::string usual = {};  // of the user's own configuration; empty: Cache::default_path()
  bool none = false;       // neither read nor store results

  std::filesystem::path file() const;
};

// For what only reads: null if nothing was ever tuned (the file does not exist, or is empty).
std::unique_ptr<Cache> open_existing_cache(const CacheChoice& choice, Cache::Mode mode = Cache::Mode::read_only);
// The same for what looks at nothing else: throws BadField if a file was named that does not exist.
std::unique_ptr<Cache> open_named_cache(const CacheChoice& choice, Cache::Mode mode = Cache::Mode::read_only);
// For what stores: created if it is missing; null with CacheChoice::none. Throws BadField for a path and
// `none`.
std::unique_ptr<Cache> open_or_create_cache(const CacheChoice& choice);

}  // namespace moetune
