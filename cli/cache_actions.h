// The actions of `moetune cache`: what its command line gives, and one function an action.
#pragma once

#include <string>

#include "cli/output.h"
#include "jobs/stores.h"

namespace moetune {

struct CacheArguments {
  std::string operand;  // the word after the action: a key, a path
  std::string folder;   // extract: where to
  CacheChoice cache;
  std::string kernel, hardware;  // export: which winners; empty for all
  // gc: MiB of builds to keep, MiB that the file may take (0: as much as it likes), and whether only to count
  std::uint64_t keep_builds = 64;
  double max_size = 0;
  bool dry_run = false;
};

// Each returns an exit code, and throws as a command does.
int list_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int show_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int check_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int export_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int remove_from_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int extract_from_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int collect_garbage(const CacheArguments& arguments, Cache& cache, Output& output);

// The workload that a key, as `cache ls` prints it, names. Throws BadInput.
Workload find_workload(const Cache& cache, const std::string& key);

}  // namespace moetune
