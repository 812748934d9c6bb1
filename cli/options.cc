#include "cli/options.h"

#include "base/error.h"

namespace moetune {

std::filesystem::path CacheChoice::file() const {
  return path.empty() ? Cache::default_path() : std::filesystem::path(path);
}

void declare_workload(OptionTable& table, WorkloadOptions& options, bool kernel_required) {
  table.positional("KERNEL", options.kernel, kernel_required, "a kernel's name (see: moetune kernels)");
  table.text("problem", "DIMS", options.problem, "the workload: batch=64,context=8192; the rest by default");
  table.text("preset", "NAME", options.preset, "a model's dimensions (see: moetune kernels KERNEL)");
}

void declare_device(OptionTable& table, std::string& device) {
  table.text("device", "DEVICE", device, "auto, cuda:N, or replay:FILE for recorded measurements");
}

void declare_gpu(OptionTable& table, std::string& device) {
  table.text("device", "DEVICE", device, "auto (the first GPU), or cuda:N");
}

void declare_cache_path(OptionTable& table, CacheChoice& options) {
  table.text("cache", "FILE", options.path, "the cache file; by default below $XDG_CACHE_HOME");
}

void declare_cache(OptionTable& table, CacheChoice& options) {
  declare_cache_path(table, options);
  table.flag("no-cache", options.none, "neither read nor store results");
}

std::unique_ptr<Cache> open_existing_cache(const CacheChoice& options, Cache::Mode mode) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(options.file(), error);
  if (status.type() == std::filesystem::file_type::not_found) return nullptr;
  return std::make_unique<Cache>(Cache::open(options.file(), mode));
}

std::unique_ptr<Cache> open_named_cache(const CacheChoice& options, Cache::Mode mode) {
  std::unique_ptr<Cache> cache = open_existing_cache(options, mode);
  if (cache == nullptr && !options.path.empty()) throw BadInput("there is no cache at " + options.path);
  return cache;
}

std::unique_ptr<Cache> open_or_create_cache(const CacheChoice& options) {
  if (options.none && !options.path.empty()) {
    throw BadInput("--cache and --no-cache contradict each other");
  }
  if (options.none) return nullptr;
  return std::make_unique<Cache>(Cache::open(options.file(), Cache::Mode::create));
}

}  // namespace moetune
