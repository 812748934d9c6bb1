#include "jobs/stores.h"

#include "base/error.h"

namespace moetune {

std::filesystem::path CacheChoice::file() const {
  return path.empty() ? Cache::default_path() : std::filesystem::path(path);
}

std::unique_ptr<Cache> open_existing_cache(const CacheChoice& choice, Cache::Mode mode) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(choice.file(), error);
  if (status.type() == std::filesystem::file_type::not_found) return nullptr;
  return std::make_unique<Cache>(Cache::open(choice.file(), mode));
}

std::unique_ptr<Cache> open_named_cache(const CacheChoice& choice, Cache::Mode mode) {
  std::unique_ptr<Cache> cache = open_existing_cache(choice, mode);
  if (cache == nullptr && !choice.path.empty()) {
    throw BadField("cache", "there is no cache at " + choice.path);
  }
  return cache;
}

std::unique_ptr<Cache> open_or_create_cache(const CacheChoice& choice) {
  if (choice.none && !choice.path.empty()) {
    throw BadField("cache", "a cache file is named, and no cache is to be used");
  }
  if (choice.none) return nullptr;
  return std::make_unique<Cache>(Cache::open(choice.file(), Cache::Mode::create));
}

}  // namespace moetune
