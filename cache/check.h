// Checks of a whole cache file, and its summary. Errors: BrokenEnvironment, as Cache's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

struct CacheProblem {
  std::string where;  // "winner 12 (decode_attention ...)"
  std::string what;
};

// PRAGMA integrity_check; tables, columns and indexes against those that moetune makes; references between rows; every
// text for being UTF-8; every row and blob against its digest, and each table against the count and digest of its rows;
// every workload, trial, winner and range table against `rules`.
std::vector<CacheProblem> check_cache(const Cache& cache, const RecordRules& rules = {});

struct CacheSummary {
  std::int64_t workloads = 0, trials = 0, winners = 0, builds = 0;
  std::int64_t file_bytes = 0, build_bytes = 0;
  int schema_version = 0;
};
CacheSummary summary_of(const Cache& cache);

}  // namespace moetune
