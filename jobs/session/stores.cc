#include "jobs/session/stores.h"

#include "base/error.h"
#include "jobs/session/record_rules.h"

namespace moetune {
namespace {

std::unique_ptr<Cache> with_rules(Cache cache) {
  cache.use_rules(record_rules());
  return std::make_unique<Cache>(std::move(cache));
}

}  // namespace

std::filesystem::path CacheChoice::file() const {
  if (path.empty() && usual.empty()) return Cache::default_path();
  return path.empty() ? usual : path;
}

std::unique_ptr<Cache> open_existing_cache(const CacheChoice& choice, Cache::Mode mode) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(choice.file(), error);
  if (status.type() == std::filesystem::file_type::not_found) return nullptr;
  // Another process has just made it, and has stored nothing so far.
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(choice.file(), error) == 0 &&
      !std::filesystem::exists(choice.file().string() + "-journal", error))
    return nullptr;
  return with_rules(Cache::open(choice.file(), mode));
}

std::unique_ptr<Cache> open_named_cache(const CacheChoice& choice, Cache::Mode mode) {
  std::unique_ptr<Cache> cache = open_existing_cache(choice, mode);
  std::error_code error;
  if (cache == nullptr && !choice.path.empty() && !std::filesystem::exists(choice.file(), error)) {
    throw BadField("cache", "there is no cache at " + choice.path);
  }
  return cache;
}

std::unique_ptr<Cache> open_or_create_cache(const CacheChoice& choice) {
  if (choice.none && !choice.path.empty()) {
    throw BadField("cache", "a cache file is named, and no cache is to be used");
  }
  if (choice.none) return nullptr;
  return with_rules(Cache::open(choice.file(), Cache::Mode::create));
}

}  // namespace moetune
