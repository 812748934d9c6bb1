#include "kernels/attention/call.h"

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "base/format.h"
#include "base/integers.h"

namespace moetune {
namespace {

// Rows are read and written 16 bytes at a time; the copy engine takes strides below 2^40 bytes.
constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kMaximumStride = std::int64_t{1} << 40;
constexpr double kMaximumSpan = 0x1p56;  // bytes: no GPU addresses more
constexpr std::int64_t kSwizzleBytes = 128;
constexpr double kLeastScale = 0x1p-100;

}  // namespace

RowChunks::RowChunks(DType dtype, std::int64_t head_dim)
    : elements((head_dim * dtype_bytes(dtype) > kSwizzleBytes / 2 ? kSwizzleBytes : kSwizzleBytes / 2) /
               dtype_bytes(dtype)),
      count(ceil_div(head_dim, elements)),
      whole(head_dim % elements == 0),
      innermost(whole ? elements : head_dim),
      of_a_map(whole ? count : 1),
      swizzle(elements * dtype_bytes(dtype) == kSwizzleBytes ? TensorMap::Swizzle::b128 : TensorMap::Swizzle::b64) {}

std::int64_t KvTensors::elements(const KvStrides& strides) const {
  return (blocks - 1) * strides.block + (heads - 1) * strides.head + (tokens - 1) * strides.token + head_dim;
}

Pointer KvTensors::pointer(bool values) const {
  const char* const buffer = values && v_offset == 0 ? "v" : "k";
  return {buffer, values ? v_offset * dtype_bytes(dtype) : 0};
}

TensorMap KvTensors::row_map(bool values, std::int64_t box_tokens) const {
  TensorMap whole = map(values, box_tokens, 1);
  whole.dims[0] = static_cast<std::uint64_t>(head_dim);
  whole.dims[2] = 1;
  whole.box[0] = static_cast<std::uint32_t>(head_dim);
  whole.swizzle = TensorMap::Swizzle::none;
  return whole;
}

TensorMap KvTensors::map(bool values, std::int64_t box_tokens, std::int64_t box_chunks) const {
  const auto bytes = [&](std::int64_t count) { return static_cast<std::uint64_t>(count * dtype_bytes(dtype)); };
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto box = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const RowChunks chunks(dtype, head_dim);
  const KvStrides& by = strides(values);
  const Pointer begin = pointer(values);
  TensorMap map;
  map.buffer = begin.buffer;
  map.offset = begin.offset;
  map.dtype = dtype;
  map.dims = {count(chunks.innermost), count(tokens), count(chunks.of_a_map), count(heads), count(blocks)};
  map.strides = {bytes(by.token), bytes(chunks.elements), bytes(by.head), bytes(by.block)};
  map.box = {box(chunks.elements), box(box_tokens), box(box_chunks), 1, 1};
  map.swizzle = chunks.swizzle;
  return map;
}

void CallRules::refuse(const std::string& rule) const { throw BadInput(std::string(kernel_) + ": " + rule); }

// The tensor's name and the field's are apart, so that nothing is put together unless it is wrong.
void CallRules::check_stride(const char* tensor, const char* field, std::int64_t stride,
                             std::int64_t element_bytes) const {
  const bool sound = stride > 0 && stride < kMaximumStride / element_bytes && stride * element_bytes % kAlignment == 0;
  if (sound) return;
  const std::string text = std::string(tensor) + field + "=" + std::to_string(stride);
  if (stride <= 0) refuse(text + " elements; it must be positive");
  if (stride >= kMaximumStride / element_bytes) refuse(text + " elements is too large: less than 2^40 bytes");
  refuse(text + " elements is not a multiple of " + std::to_string(kAlignment / element_bytes) + " (16 bytes)");
}

void CallRules::check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) const {
  if (value >= least && value <= most) return;
  refuse(std::string(name) + "=" + std::to_string(value) + " is out of range (from " + std::to_string(least) + " to " +
         std::to_string(most) + ")");
}

void CallRules::check_disjoint(const char* tensor, std::span<StridedDimension> dimensions, std::int64_t row) const {
  std::sort(dimensions.begin(), dimensions.end(), [](const StridedDimension& a, const StridedDimension& b) {
    return a.stride != b.stride ? a.stride < b.stride : a.count < b.count;
  });
  std::int64_t extent = row;
  for (const StridedDimension& dimension : dimensions) {
    if (dimension.count == 1) continue;
    // Each dimension steps over all that the smaller strides span.
    if (dimension.stride < extent) refuse("the strides of " + std::string(tensor) + " let rows overlap");
    extent += dimension.stride * (dimension.count - 1);
  }
}

void CallRules::check_kv(const KvTensors& kv) const {
  const std::int64_t size = dtype_bytes(kv.dtype);
  for (const bool values : {false, true}) {
    const char* const which = values ? "v" : "k";
    check_stride(which, "_block_stride", kv.strides(values).block, size);
    check_stride(which, "_head_stride", kv.strides(values).head, size);
    check_stride(which, "_token_stride", kv.strides(values).token, size);
  }
  check_range("v_offset", kv.v_offset, 0, static_cast<std::int64_t>(kMaximumSpan) / size);
  if (kv.v_offset * size % kAlignment != 0)
    refuse("v_offset=" + std::to_string(kv.v_offset) + " is not a multiple of 16 bytes");
  for (const bool values : {false, true}) {
    const KvStrides& by = kv.strides(values);
    const StridedDimension dimensions[] = {
        {by.block, kv.blocks}, {by.head, kv.heads}, {by.token, kv.tokens}, {1, kv.v_offset}};
    check_span(values ? "v" : "k", dimensions, size);
  }
}

void CallRules::check_span(const char* tensor, std::span<const StridedDimension> dimensions,
                           std::int64_t element_bytes) const {
  double elements = 0;
  for (const StridedDimension& dimension : dimensions)
    elements += static_cast<double>(dimension.count) * static_cast<double>(dimension.stride);
  if (elements * static_cast<double>(element_bytes) <= kMaximumSpan) return;
  refuse("the strides and sizes of the call make " + std::string(tensor) + " span more than 2^56 bytes");
}

void CallRules::check_scale(double scale) const {
  if (scale >= kLeastScale && scale <= 1 / kLeastScale) return;
  refuse(format("scale is %g; it must be positive, from 2^-100 to 2^100", scale));
}

std::string element_type(DType type) {
  if (type == DType::e4m3) return "E4m3";
  return type == DType::f16 ? "Fp16" : "Bf16";
}

void define_softcap(CompileUnit& unit, std::int64_t softcap) {
  if (softcap > 0) unit.defines.emplace_back("SOFTCAP", std::to_string(softcap));
}

float scale_log2(double scale) { return static_cast<float>(std::numbers::log2e * scale); }

Argument pointer_argument(const char* buffer, bool present) { return {buffer, present ? Pointer{buffer} : Pointer{}}; }

}  // namespace moetune
