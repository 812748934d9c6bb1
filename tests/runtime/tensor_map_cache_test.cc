#include "runtime/tensor_map_cache.h"

#include <doctest/doctest.h>

#include "tests/runtime/driver_calls.h"
#include "tests/runtime/fake_cache.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

TensorMap sample_map() {
  TensorMap map;
  map.buffer = "k";
  for (const std::uint64_t size : {64, 1000}) map.dims.push_back(size);
  map.strides.push_back(128);
  for (const std::uint32_t size : {64, 16}) map.box.push_back(size);
  return map;
}

}  // namespace

TEST_CASE("a tensor map is encoded once for an address and a layout") {
  fake_device();
  TensorMapCache cache;
  const int before = call_driver("fakeCountEncodings");
  const auto encodings = [&] { return call_driver("fakeCountEncodings") - before; };
  const TensorMap map = sample_map();
  const cuda::EncodedTensorMap first = cache.encoded(map, 0x10000);
  CHECK(cache.encoded(map, 0x10000).bytes == first.bytes);
  CHECK(encodings() == 1);
  CHECK(cache.encoded(map, 0x20000).bytes != first.bytes);
  CHECK(encodings() == 2);
  const auto other = [&](const auto& change) {
    TensorMap changed = map;
    change(changed);
    return changed;
  };
  const TensorMap others[] = {
      other([](TensorMap& one) { one.box.back() = 8; }), other([](TensorMap& one) { one.strides.back() = 256; }),
      other([](TensorMap& one) { one.dims.back() = 999; }), other([](TensorMap& one) { one.dtype = DType::f16; }),
      other([](TensorMap& one) { one.swizzle = TensorMap::Swizzle::b128; })};
  for (const TensorMap& one : others) {
    const cuda::EncodedTensorMap right = cuda::encode_tensor_map(one, 0x10000);
    CHECK(right.bytes != first.bytes);
    CHECK(cache.encoded(one, 0x10000).bytes == right.bytes);
    CHECK(cache.encoded(map, 0x10000).bytes == first.bytes);
  }
  cache.encoded(others[0], 0x10000);
  const int between = encodings();
  cache.encoded(map, 0x10000);
  cache.encoded(others[0], 0x10000);
  CHECK(encodings() == between);  // with another box, it has another place
}

TEST_CASE("maps that share a place are each encoded for what they are") {
  fake_device();
  TensorMapCache cache;
  const TensorMap map = sample_map();
  for (int round = 0; round < 2; ++round) {
    for (cuda::Address base = 0x10000; base < 0x10000 + 1000 * 0x100; base += 0x100)
      CHECK(cache.encoded(map, base).bytes == cuda::encode_tensor_map(map, base).bytes);
  }
}
