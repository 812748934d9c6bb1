// A tensor map as the scripted driver encodes it: what it was given, in the driver's 128 bytes, where the driver's own
// form is a secret. The base is first, so that a kernel that takes a pointer there finds the tensor.
#pragma once

#include <array>
#include <cstdint>

namespace fake_cuda {

struct FakeTensorMap {
  std::uint64_t base = 0;
  std::array<std::uint64_t, 5> dims{};
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};
  std::uint8_t rank = 0, type = 0, swizzle = 0, promotion = 0;
};
static_assert(sizeof(FakeTensorMap) <= 128);

}  // namespace fake_cuda
