#include "tests/simt/matrix_operand.h"

#include "tests/simt/tensor_box.h"

namespace moetune::testing {
namespace {

constexpr unsigned kSwizzles[] = {0, 128, 64, 32};  // by the descriptor's two highest bits
constexpr unsigned kMatrixUnit = 16,
                   kMatrixGroup = 8;  // bytes, and the rows or the K that lie beside each other

}  // namespace

MatrixOperand::MatrixOperand(std::uint64_t descriptor, unsigned bytes, bool k_strides, std::string& error)
    : start(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
      leading(static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4),
      stride(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4),
      swizzle_bytes(kSwizzles[descriptor >> 62]),
      element_bytes(bytes),
      transposed(k_strides) {
  constexpr std::uint64_t kMeant = 0xc000'3fff'3fff'3fff, kBaseOffset = std::uint64_t{7} << 49;
  if ((descriptor & kBaseOffset) != 0) {
    error = "a matrix descriptor with a base offset is not supported";
  } else if ((descriptor & ~kMeant) != 0) {
    error = "a matrix descriptor has bits set that mean nothing";
  } else if (transposed && element_bytes != 2) {
    error = "a transposed matrix of elements that are not 16 bits";
  } else if (swizzle_bytes > 0 && (start & (kMatrixGroup * swizzle_bytes - 1) & ~0x7fU) != 0) {
    error = "a swizzled matrix does not begin with the first of eight rows";
  } else {
    error.clear();
  }
}

std::uint32_t MatrixOperand::address(unsigned place, unsigned k) const {
  const unsigned in_unit = kMatrixUnit / element_bytes;
  std::uint32_t linear = start;
  if (transposed) {
    // Units of `place`, as many beside each other as the swizzle is wide; 8 of K below each other.
    const unsigned wide = swizzle_bytes == 0 ? kMatrixUnit : swizzle_bytes, across = wide / element_bytes;
    const std::uint32_t next_places = swizzle_bytes == 0 ? stride : leading,
                        next_k = swizzle_bytes == 0 ? leading : stride;
    linear += place / across * next_places + place % across * element_bytes + k / kMatrixGroup * next_k +
              k % kMatrixGroup * wide;
  } else {
    const unsigned wide = swizzle_bytes == 0 ? kMatrixUnit : swizzle_bytes;
    const std::uint32_t next_unit = swizzle_bytes == 0 ? leading : kMatrixUnit;
    linear += place / kMatrixGroup * stride + place % kMatrixGroup * wide + k / in_unit * next_unit +
              k % in_unit * element_bytes;
  }
  return swizzled(linear, swizzle_bytes);
}

}  // namespace moetune::testing
