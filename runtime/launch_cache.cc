#include "runtime/launch_cache.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace moetune {
namespace {

bool same(const LaunchKey& a, const LaunchKey& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

LaunchCache::LaunchCache() : places_(std::make_unique<Place[]>(kPlaces)) {}

bool LaunchCache::Held::holds(const LaunchKey& key) const {
  return place_ != nullptr && place_->filled && same(place_->key, key);
}

LaunchCache::Held LaunchCache::hold(const LaunchKey& key) {
  const std::uint64_t hash = XXH3_64bits(&key, sizeof key);
  const std::size_t both[] = {hash % kPlaces, (hash >> 32) % kPlaces};
  Place* free = nullptr;
  for (const std::size_t index : both) {
    Place& place = places_[index];
    if (&place == free || place.busy.test_and_set(std::memory_order_acquire)) continue;
    if (place.filled && same(place.key, key)) {
      if (free != nullptr) free->busy.clear(std::memory_order_release);
      return Held(&place);
    }
    // An empty place before a filled one; of two filled ones the first, at which half of all keys look first.
    if (free == nullptr || (free->filled && !place.filled)) {
      if (free != nullptr) free->busy.clear(std::memory_order_release);
      free = &place;
    } else {
      place.busy.clear(std::memory_order_release);
    }
  }
  return Held(free);
}

}  // namespace moetune
