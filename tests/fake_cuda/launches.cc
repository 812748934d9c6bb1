#include "tests/fake_cuda/launches.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

#include "tests/fake_cuda/tensor_map.h"

namespace fake_cuda {
namespace {

constexpr std::int64_t kSharedPerBlock = 232448;  // as devices.cc says
constexpr unsigned kPortableCluster = 8, kLargestCluster = 16, kMostThreads = 1024;

std::int64_t fixed_shared(const Kernel& kernel) { return kernel.number_of("fixed", 0); }

std::uint64_t element_bytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return 8;
    default:
      return 4;
  }
}

std::uint64_t swizzled_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    default:
      return std::uint64_t{256} * 8;
  }
}

std::atomic<int> encodings{0};

}  // namespace

int count_encodings() { return encodings; }

CUresult func_get_attribute(int* value, CUfunction_attribute which, CUfunction function) {
  const auto& kernel = *reinterpret_cast<const Kernel*>(function);
  if (which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) *value = static_cast<int>(fixed_shared(kernel));
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) *value = static_cast<int>(kernel.dynamic_shared);
  return static_cast<CUresult>(machine.sticky);
}

CUresult func_set_attribute(CUfunction function, CUfunction_attribute which, int value) {
  auto& kernel = *reinterpret_cast<Kernel*>(function);
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value + fixed_shared(kernel) > kSharedPerBlock) return CUDA_ERROR_INVALID_VALUE;
    kernel.dynamic_shared = static_cast<unsigned>(value);
  }
  if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) kernel.large_clusters = value != 0;
  return static_cast<CUresult>(machine.sticky);
}

CUlaunchAttributeValue attribute_of(const CUlaunchConfig& config, CUlaunchAttributeID which) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs[i].id == which) return config.attrs[i].value;
  }
  return {};
}

CUresult check_shape(const CUlaunchConfig& config, const Kernel& kernel) {
  const unsigned grid[] = {config.gridDimX, config.gridDimY, config.gridDimZ};
  const auto given = attribute_of(config, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim;
  const unsigned cluster[] = {std::max(1U, given.x), std::max(1U, given.y), std::max(1U, given.z)};
  const unsigned threads = config.blockDimX * config.blockDimY * config.blockDimZ;
  if (threads == 0 || threads > kMostThreads || config.sharedMemBytes > kernel.dynamic_shared)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (grid[axis] == 0 || grid[axis] % cluster[axis] != 0) return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned most = kernel.large_clusters ? kLargestCluster : kPortableCluster;
  return cluster[0] * cluster[1] * cluster[2] > most ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
}

CUresult tensor_map_encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                           const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                           const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  ++encodings;
  const auto address = reinterpret_cast<std::uint64_t>(base);
  const std::uint64_t row = box[0] * element_bytes(type);
  const auto none_is = [](const auto* values, std::size_t count, const auto& wrong) {
    return std::none_of(values, values + count, wrong);
  };
  const bool is_sound =
      rank >= 1 && rank <= 5 && address % 16 == 0 && row % 16 == 0 && row <= swizzled_bytes(swizzle) &&
      interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
      none_is(dims, rank, [](auto size) { return size == 0 || size > std::uint64_t{1} << 32; }) &&
      none_is(strides, rank - 1, [](auto bytes) { return bytes % 16 != 0 || bytes >= std::uint64_t{1} << 40; }) &&
      none_is(box, rank, [](auto size) { return size == 0 || size > 256; }) &&
      none_is(element_strides, rank, [](auto stride) { return stride != 1; });
  if (!is_sound) return CUDA_ERROR_INVALID_VALUE;
  FakeTensorMap encoded{.base = address,
                        .rank = static_cast<std::uint8_t>(rank),
                        .type = static_cast<std::uint8_t>(type),
                        .swizzle = static_cast<std::uint8_t>(swizzle),
                        .promotion = static_cast<std::uint8_t>(promotion)};
  std::copy_n(dims, rank, encoded.dims.begin());
  std::copy_n(strides, rank - 1, encoded.strides.begin());
  std::copy_n(box, rank, encoded.box.begin());
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &encoded, sizeof encoded);
  return CUDA_SUCCESS;
}

}  // namespace fake_cuda
