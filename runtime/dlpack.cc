#include "runtime/dlpack.h"

#include <algorithm>
#include <string>

#include "runtime/runtime_error.h"

// As https://dmlc.github.io/dlpack/latest/c_api.html lays it out; the header is no package that all have.
struct DLTensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;  // null: contiguous
  std::uint64_t byte_offset;
};
static_assert(sizeof(DLTensor) == 48);

namespace moetune {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 56;  // bytes; no GPU has such an address
constexpr std::int32_t kCuda = 2, kCudaManaged = 13;

struct TypeCode {
  std::uint8_t code, bits;
  DType type;
};

// Codes: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn.
constexpr TypeCode kTypes[] = {{2, 32, DType::f32}, {2, 16, DType::f16}, {4, 16, DType::bf16}, {10, 8, DType::e4m3},
                               {0, 32, DType::i32}, {0, 64, DType::i64}, {1, 8, DType::u8},    {6, 8, DType::u8},
                               {0, 8, DType::i8},   {0, 16, DType::i16}, {1, 16, DType::u16},  {1, 32, DType::u32},
                               {2, 64, DType::f64}};

[[noreturn]] void refuse(moetune_status status, std::string_view name, const std::string& what) {
  throw RuntimeError(status, "tensor '" + std::string(name) + "' " + what);
}

DType type_of(const DLTensor& tensor, std::string_view name) {
  for (const TypeCode& known : kTypes) {
    if (tensor.code == known.code && tensor.bits == known.bits && tensor.lanes == 1) return known.type;
  }
  refuse(MOETUNE_INVALID_ARGUMENT, name,
         "has elements that no kernel takes (DLPack code " + std::to_string(tensor.code) + ", " +
             std::to_string(tensor.bits) + " bits, " + std::to_string(tensor.lanes) +
             " lanes); kernels take f32, fp16, bf16, e4m3, f64, i8, i16, i32, i64, u8, u16, u32 and bool");
}

}  // namespace

DLPackType dlpack_type(DType type) {
  const auto found = std::ranges::find(kTypes, type, &TypeCode::type);
  return {found->code, found->bits};
}

ViewedTensor view_tensor(const DLTensor& tensor, std::string_view name) {
  return view_tensor(tensor, name, tensor.device_id);
}

ViewedTensor view_tensor(const DLTensor& tensor, std::string_view name, int ordinal) {
  if (tensor.device_type != kCuda && tensor.device_type != kCudaManaged)
    refuse(MOETUNE_WRONG_DEVICE, name, "is not in the memory of a GPU");
  if (tensor.device_id != ordinal)
    refuse(
        MOETUNE_WRONG_DEVICE, name,
        "is on device " + std::to_string(tensor.device_id) + "; the runtime is of device " + std::to_string(ordinal));
  if (tensor.ndim < 0 || tensor.ndim > static_cast<std::int32_t>(TensorView::kMaxRank) ||
      (tensor.ndim > 0 && tensor.shape == nullptr))
    refuse(MOETUNE_INVALID_ARGUMENT, name,
           "has " + std::to_string(tensor.ndim) + " dimensions" +
               (tensor.ndim > 0 && tensor.shape == nullptr ? " and no shape" : "") + "; it can have up to " +
               std::to_string(TensorView::kMaxRank));
  ViewedTensor viewed;
  viewed.view.dtype = type_of(tensor, name);
  if (tensor.byte_offset > static_cast<std::uint64_t>(kFarthest))
    refuse(MOETUNE_INVALID_ARGUMENT, name, "begins " + std::to_string(tensor.byte_offset) + " bytes from its address");
  if (tensor.data != nullptr)  // else it stays null, wherever it would begin
    viewed.address = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset);
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  for (std::size_t d = 0; d < rank; ++d) {
    if (tensor.shape[d] < 0 || tensor.shape[d] > (std::int64_t{1} << 40))
      refuse(MOETUNE_INVALID_ARGUMENT, name,
             "has a dimension of " + std::to_string(tensor.shape[d]) + "; it can be from 0 to 2^40");
    viewed.view.shape.push_back(tensor.shape[d]);
    viewed.view.strides.push_back(0);
  }
  // Elements past 2^56 bytes are no tensor's; what is computed of sizes and strides stays within 64 bits.
  std::int64_t count = 1;
  for (std::size_t d = rank; d-- > 0;) {
    const std::int64_t size = viewed.view.shape[d];
    const std::int64_t stride = tensor.strides != nullptr ? tensor.strides[d] : count;
    std::int64_t reach = 0;
    const bool far = __builtin_mul_overflow(stride, std::max<std::int64_t>(size, 1), &reach) || reach > kFarthest ||
                     reach < -kFarthest;
    if (far && size > 1)
      refuse(MOETUNE_INVALID_ARGUMENT, name,
             "has a stride of " + std::to_string(stride) + ", which takes it past 2^56 elements");
    viewed.view.strides[d] = far ? count : stride;  // of a dimension of one it is never used
    if (__builtin_mul_overflow(count, size, &count) || count > kFarthest)
      refuse(MOETUNE_INVALID_ARGUMENT, name, "has more elements than a GPU addresses");
  }
  return viewed;
}

}  // namespace moetune
