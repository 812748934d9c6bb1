// Options that several commands share, as plain values, and what declares them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "cli/option_table.h"

namespace moetune {

struct WorkloadOptions {
  std::optional<std::string> kernel;
  std::string problem;  // "batch=64,context=8192"; may be empty
  std::string preset;   // may be empty

  bool names_problem() const { return !problem.empty() || !preset.empty(); }
};

struct CacheChoice {
  std::string path;  // empty: Cache::default_path()
  bool none = false;

  std::filesystem::path file() const;
};

struct CompileOptions {
  bool none = false;
  std::uint64_t threads = 0;  // 0: all cores
};

void declare_workload(OptionTable& table, WorkloadOptions& options, bool kernel_required);
void declare_device(OptionTable& table, std::string& device);       // a GPU or a recording
void declare_gpu(OptionTable& table, std::string& device);          // for what runs kernels
void declare_cache(OptionTable& table, CacheChoice& options);       // --cache and --no-cache
void declare_cache_path(OptionTable& table, CacheChoice& options);  // --cache alone

// For commands that only read: null where nothing was ever tuned (the file does not exist).
std::unique_ptr<Cache> open_existing_cache(const CacheChoice& options,
                                           Cache::Mode mode = Cache::Mode::read_only);
// The same for commands that look at nothing else: BadInput where a file was named that does not exist.
std::unique_ptr<Cache> open_named_cache(const CacheChoice& options,
                                        Cache::Mode mode = Cache::Mode::read_only);
// For commands that store: created where it is missing; null with --no-cache.
std::unique_ptr<Cache> open_or_create_cache(const CacheChoice& options);

}  // namespace moetune
