// Tensor maps for the copy engine, encoded on the host.
#include <array>
#include <cstring>
#include <stdexcept>

#include "launch/driver.h"
#include "launch/driver_symbols.h"

namespace moetune::cuda {
namespace {

// By DType, in their order.
constexpr std::array kTensorTypes = {
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT8,   CU_TENSOR_MAP_DATA_TYPE_INT32,   CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_UINT8,   CU_TENSOR_MAP_DATA_TYPE_UINT8,   CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT16,  CU_TENSOR_MAP_DATA_TYPE_UINT32,  CU_TENSOR_MAP_DATA_TYPE_FLOAT64};
static_assert(static_cast<std::size_t>(DType::f64) + 1 == kTensorTypes.size());

CUtensorMapSwizzle tensor_swizzle(TensorMap::Swizzle swizzle) {
  constexpr std::array swizzles = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                   CU_TENSOR_MAP_SWIZZLE_128B};
  static_assert(TensorMap::Swizzle::none == TensorMap::Swizzle{0} && TensorMap::Swizzle::b128 == TensorMap::Swizzle{3});
  return swizzles.at(static_cast<std::size_t>(swizzle));
}

}  // namespace

EncodedTensorMap encode_tensor_map(const TensorMap& map, Address base) {
  const std::size_t rank = map.dims.size();
  if (rank < 1 || rank > 5 || map.strides.size() + 1 != rank || map.box.size() != rank) {
    throw CudaError(CudaError::Kind::other,
                    "tensor map of " + map.buffer.text() + ": dims, strides and box do not agree in rank");
  }
  std::array<std::uint32_t, 5> element_strides;
  element_strides.fill(1);
  CUtensorMap encoded;
  static_assert(sizeof encoded == sizeof(EncodedTensorMap) && alignof(CUtensorMap) <= alignof(EncodedTensorMap));
  check(cu.cuTensorMapEncodeTiled(
            &encoded, kTensorTypes.at(static_cast<std::size_t>(map.dtype)), static_cast<cuuint32_t>(rank),
            reinterpret_cast<void*>(base), reinterpret_cast<const cuuint64_t*>(map.dims.data()),
            reinterpret_cast<const cuuint64_t*>(map.strides.data()), map.box.data(), element_strides.data(),
            // 128 B: what a swizzled row fetches. With 256 B, streams lose 8% of an H200's bandwidth to lines
            // that are evicted before their copy asks for them.
            CU_TENSOR_MAP_INTERLEAVE_NONE, tensor_swizzle(map.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled of " + map.buffer.text());
  EncodedTensorMap result;
  std::memcpy(result.bytes.data(), &encoded, sizeof encoded);
  return result;
}

}  // namespace moetune::cuda
