// The actions of `moetune cache`: what its command line gives, and one function an action.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "cache/check.h"
#include "cache/gc.h"
#include "cache/merge.h"
#include "cache/ranges.h"
#include "cli/output.h"
#include "jobs/session/documents.h"
#include "jobs/session/stores.h"
#include "report/selection.h"

namespace moetune {

struct CacheArguments {
  std::string operand;             // the word after the action: a key, a path
  std::vector<std::string> words;  // after that: extract's folder, merge's files, rollback's generation
  CacheChoice cache;
  Selection selection;     // ls and export: which winners
  std::string key, trust;  // sign: the secret key; check: the public one; empty for none
  // gc: MiB of builds to keep, MiB that the file may take (0: as much as it likes), and whether only to count
  std::uint64_t keep_builds = 64;
  double max_size = 0;
  bool dry_run = false;
  bool later = false;     // merge: of two sound records the later one stays, not the faster
  bool recorded = false;  // export: winners of recordings too
  std::stop_token stop;   // complete: ends it after the table at hand
};

// Each returns an exit code, and throws as a command does.
int list_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int show_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int check_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int complete_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int export_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int remove_from_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int extract_from_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int show_history(const CacheArguments& arguments, Cache& cache, Output& output);
int roll_back_cache(const CacheArguments& arguments, Cache& cache, Output& output);
int shrink_cache(const CacheArguments& arguments, Cache& cache, Output& output);
// These open their files themselves.
int merge_caches(const CacheArguments& arguments, Output& output);
int import_into_cache(const CacheArguments& arguments, Output& output);
int check_named_cache(const CacheArguments& arguments, Output& output);
int sign_cache(const CacheArguments& arguments, Output& output);
int make_key(const CacheArguments& arguments, Output& output);

// For a cache that is not there.
int print_nothing_tuned(const CacheChoice& cache, Output& output);

// 3 of "table:3"; nullopt for another key.
std::optional<std::int64_t> range_table_id(const std::string& key);
[[noreturn]] void throw_no_range_table(const std::string& key);

// The sound table that a key names; nullopt for a key of another kind. Throws BadInput if there is none.
std::optional<FamilyRange> find_range_table(const Cache& cache, const std::string& key);

// The workload that a key, as `cache ls` prints it, names. Throws BadInput.
Workload find_workload(const Cache& cache, const std::string& key);

}  // namespace moetune
