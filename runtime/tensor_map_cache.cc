#include "runtime/tensor_map_cache.h"

#include <cstdint>

namespace moetune {

TensorMapCache::Place& TensorMapCache::place_of(const TensorMap& map, cuda::Address base) const {
  // Hash the fields that differ between the maps of a server: base, sizes, and the box that a block copies.
  std::uint64_t hash = base;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15; };
  for (const std::uint64_t size : map.dims) add(size);
  for (const std::uint32_t size : map.box) add(size);
  static_assert(kPlaces == std::size_t{1} << 8);
  return (*places_)[hash >> 56];
}

cuda::EncodedTensorMap TensorMapCache::encoded(const TensorMap& map, cuda::Address base) {
  Place& place = place_of(map, base);
  if (place.busy.test_and_set(std::memory_order_acquire)) return cuda::encode_tensor_map(map, base);
  struct Release {
    ~Release() { busy.clear(std::memory_order_release); }
    std::atomic_flag& busy;
  } const release{place.busy};
  if (place.base != base || !(place.map == map)) {
    place.base = 0;
    place.encoded = cuda::encode_tensor_map(map, base);
    place.map = map;
    place.base = base;
  }
  return place.encoded;
}

}  // namespace moetune
