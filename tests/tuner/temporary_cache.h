// A cache in a file that goes away with the object, with one workload.
#pragma once

#include <filesystem>
#include <string>

#include "cache/cache.h"
#include "tests/temporary_folder.h"

namespace moetune {

struct TemporaryFile {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "tuned.db";
};

struct TemporaryCache {
  TemporaryFile file;  // first: it outlives the connection
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  std::int64_t workload = cache.workloads.id({.kernel = "k", .problem = "p"});
};

}  // namespace moetune
