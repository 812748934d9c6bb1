#include "tests/simt/tensor_box.h"

#include <cstring>

#include "tests/simt/simt_device.h"

namespace moetune::testing {
namespace {

constexpr std::uint64_t kMostDim = std::uint64_t{1} << 32, kMostStride = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostBox = 256;

unsigned swizzle_bytes_of(TensorMap::Swizzle swizzle) {
  return swizzle == TensorMap::Swizzle::none ? 0 : 16U << static_cast<unsigned>(swizzle);
}

}  // namespace

simt::TensorMap encode_for_simt(const TensorMap& map, const std::uint8_t* base) {
  const auto expect = [&](bool sound, const std::string& rule) {
    if (!sound) throw SimtError("tensor map of '" + map.buffer.text() + "': " + rule);
  };
  const std::size_t rank = map.dims.size();
  expect(rank >= 1 && rank <= TensorMap::kMaxRank && map.strides.size() + 1 == rank && map.box.size() == rank,
         "dims, strides and box do not agree in rank");
  expect(reinterpret_cast<std::uintptr_t>(base) % 16 == 0, "its address is not a multiple of 16");
  simt::TensorMap made{};
  made.mark = simt::TensorMap::kMark;
  made.base = base;
  made.rank = static_cast<unsigned char>(rank);
  made.element_bytes = static_cast<unsigned char>(dtype_bytes(map.dtype));
  made.swizzle_bytes = static_cast<unsigned char>(swizzle_bytes_of(map.swizzle));
  for (std::size_t d = 0; d < rank; ++d) {
    expect(map.dims[d] >= 1 && map.dims[d] <= kMostDim, "a dimension is none, or more than 2^32 elements");
    expect(map.box[d] >= 1 && map.box[d] <= kMostBox, "a box has 1 to 256 elements a dimension");
    made.dims[d] = map.dims[d];
    made.box[d] = map.box[d];
    if (d == 0) continue;
    const std::uint64_t stride = map.strides[d - 1];
    expect(stride % 16 == 0 && stride < kMostStride, "a stride is no multiple of 16 below 2^40");
    made.strides[d - 1] = stride;
  }
  const unsigned row = made.box[0] * made.element_bytes;
  expect(row % 16 == 0, "a row of its box is not a multiple of 16 bytes");
  expect(made.swizzle_bytes == 0 || row == made.swizzle_bytes, "a row of its box is not as long as the swizzle");
  return made;
}

std::size_t box_bytes(const simt::TensorMap& map) {
  std::size_t bytes = map.element_bytes;
  for (unsigned d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

std::vector<std::uint8_t> read_box(const simt::TensorMap& map, const int* at) {
  std::vector<std::uint8_t> bytes(box_bytes(map));
  const std::size_t row = std::size_t{map.box[0]} * map.element_bytes;
  for (std::size_t begin = 0; begin < bytes.size(); begin += row) {
    const std::uint8_t* from = map.base;
    bool inside = true;
    std::size_t rest = begin / row;
    for (unsigned d = 1; d < map.rank; ++d) {
      const std::int64_t place = at[d] + static_cast<std::int64_t>(rest % map.box[d]);
      rest /= map.box[d];
      inside = inside && place >= 0 && place < static_cast<std::int64_t>(map.dims[d]);
      if (inside) from += static_cast<std::uint64_t>(place) * map.strides[d - 1];
    }
    if (!inside) continue;
    for (unsigned i = 0; i < map.box[0]; ++i) {
      const std::int64_t place = std::int64_t{at[0]} + i;
      if (place < 0 || place >= static_cast<std::int64_t>(map.dims[0])) continue;
      std::memcpy(&bytes[begin + std::size_t{i} * map.element_bytes],
                  from + static_cast<std::uint64_t>(place) * map.element_bytes, map.element_bytes);
    }
  }
  return bytes;
}

}  // namespace moetune::testing
