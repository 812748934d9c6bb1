#include "runtime/launch_cache.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace moetune {
namespace {

using Words = std::array<std::uint64_t, sizeof(LaunchKey) / 8>;

bool same(const LaunchKey& a, const LaunchKey& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Odd numbers without a pattern (splitmix64).
constexpr Words make_factors() {
  Words factors{};
  std::uint64_t state = 0;
  for (std::uint64_t& factor : factors) {
    std::uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    factor = (mixed ^ mixed >> 31) | 1;
  }
  return factors;
}
constexpr Words kFactors = make_factors();

// A sum of products: its upper bits depend on all of the key, at one multiplication a word.
std::uint64_t hash_of(const LaunchKey& key) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&key);
  std::uint64_t sum = 0;
#pragma GCC unroll 10
  for (std::size_t i = 0; i < kFactors.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, bytes + 8 * i, sizeof word);
    sum += word * kFactors[i];
  }
  return sum;
}

}  // namespace

LaunchCache::LaunchCache()
    : places_(std::make_unique<Place[]>(kPlaces)), memory_(std::allocator<Bound>().allocate(kPlaces)) {
  static_assert(std::is_trivially_destructible_v<Bound>);
  for (std::size_t i = 0; i < kPlaces; ++i) places_[i].bound = memory_.get() + i;
}

void LaunchCache::Held::fill(const Bound& bound) {
  if (place_ == nullptr) return;
  std::construct_at(place_->bound, bound);
  place_->filled = true;
}

LaunchCache::Held LaunchCache::hold(const LaunchKey& key) {
  const std::uint64_t hash = hash_of(key);
  const std::size_t both[] = {hash >> 54, (hash >> 44) % kPlaces};
  static_assert(kPlaces == std::size_t{1} << (64 - 54));
  Place* free = nullptr;
  for (const std::size_t index : both) {
    Place& place = places_[index];
    if (&place == free || place.busy.test_and_set(std::memory_order_acquire)) continue;
    if (place.filled && same(place.bound->key, key)) {
      if (free != nullptr) free->busy.clear(std::memory_order_release);
      return {&place, true};
    }
    // An empty place before a filled one; of two filled ones the first, at which half of all keys look first.
    if (free == nullptr || (free->filled && !place.filled)) {
      if (free != nullptr) free->busy.clear(std::memory_order_release);
      free = &place;
    } else {
      place.busy.clear(std::memory_order_release);
    }
  }
  return {free, false};
}

}  // namespace moetune
