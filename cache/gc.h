// Making a cache file smaller.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "cache/cache.h"

namespace moetune {

struct GcRequest {
  std::int64_t keep_build_bytes = std::int64_t{64} << 20;  // of compiled builds; the last used stay
  std::int64_t keep_generations = 8;                       // of every workload's history; the latest stay
  std::optional<std::int64_t> max_file_bytes;              // further builds go until the file is no larger
  // True for workloads whose trials no search needs; empty: for none.
  std::function<bool(const Workload&)> is_orphaned;
  bool dry_run = false;  // changes nothing, and estimates the file's size after it
};

struct GcResult {
  std::int64_t builds = 0, build_bytes = 0;                   // removed
  std::int64_t trials = 0, trial_bytes = 0, trials_from = 0;  // removed, and from how many workloads
  std::int64_t generations = 0;                               // removed
  std::int64_t busy = 0;  // orphaned workloads that were left alone because a search works on them
  std::int64_t file_bytes_before = 0, file_bytes_after = 0;
};

// Takes out what the request describes, and gives the space back to the file system. Winners stay. Needs a writable
// file, unless it is a dry run.
GcResult collect_garbage(Cache& cache, const GcRequest& request);

}  // namespace moetune
