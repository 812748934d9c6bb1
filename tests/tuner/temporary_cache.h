// A cache in a file that goes away with the object, with one workload.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "cache/cache.h"

namespace moetune {

struct TemporaryFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("moetune_tuner_test_" + std::to_string(::getpid()) + ".db");
  TemporaryFile() { remove(); }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  void remove() const {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  }
};

struct TemporaryCache {
  TemporaryFile file;  // first: it outlives the connection
  Cache cache = Cache::open(file.path, Cache::Mode::create);
  std::int64_t workload = cache.workloads.id({.kernel = "k", .problem = "p"});
};

}  // namespace moetune
