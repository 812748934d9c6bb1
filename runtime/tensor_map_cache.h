// Tensor maps as the driver encodes them, by address and layout: a server's keys and values stay where they are while
// each step brings queries and outputs at other addresses. A fixed number of places, allocated at once; a newcomer
// takes the place of what hashes alike.
//
// Thread-safe: a place is used by one thread at a time, and another that wants it meanwhile encodes its map itself.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "launch/driver.h"

namespace moetune {

class TensorMapCache {
 public:
  TensorMapCache() : places_(std::make_unique<std::array<Place, kPlaces>>()) {}

  // Throws CudaError for a map that the driver refuses.
  cuda::EncodedTensorMap encoded(const TensorMap& map, cuda::Address base);

 private:
  static constexpr std::size_t kPlaces = 256;
  struct Place {
    std::atomic_flag busy;
    cuda::Address base = 0;  // 0: empty
    TensorMap map;
    cuda::EncodedTensorMap encoded;
  };

  Place& place_of(const TensorMap& map, cuda::Address base) const;

  std::unique_ptr<std::array<Place, kPlaces>> places_;
};

}  // namespace moetune
