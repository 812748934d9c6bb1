#include "kernels/decode_attention_call.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace moetune {
namespace {

// Rows are read and written 16 bytes at a time; the copy engine takes strides below 2^40 bytes.
constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kMaximumStride = std::int64_t{1} << 40;
constexpr std::int64_t kMaximumCapacity = std::int64_t{1} << 30;
constexpr std::int64_t kMaximumBlocks = (std::int64_t{1} << 31) - 1;
constexpr double kMaximumSpan = 0x1p56;  // bytes: no GPU addresses more

[[noreturn]] void refuse_call(const std::string& rule) { throw BadInput("decode_attention: " + rule); }

// The tensor's name and the field's are apart, so that nothing is put together unless it is wrong.
void check_stride(const char* tensor, const char* field, std::int64_t stride, std::int64_t element_bytes) {
  const bool sound =
      stride > 0 && stride < kMaximumStride / element_bytes && stride * element_bytes % kAlignment == 0;
  if (sound) return;
  const std::string text = std::string(tensor) + field + "=" + std::to_string(stride);
  if (stride <= 0) refuse_call(text + " elements; it must be positive");
  if (stride >= kMaximumStride / element_bytes)
    refuse_call(text + " elements is too large: less than 2^40 bytes");
  refuse_call(text + " elements is not a multiple of " + std::to_string(kAlignment / element_bytes) +
              " (16 bytes)");
}

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  refuse_call(std::string(name) + "=" + std::to_string(value) + " is out of range (from " +
              std::to_string(least) + " to " + std::to_string(most) + ")");
}

struct StridedDimension {
  std::int64_t stride, count;
};

// Whether rows of `row` elements lie apart: each dimension steps over all that the smaller strides span.
template <std::size_t N>
bool are_disjoint(std::array<StridedDimension, N> dimensions, std::int64_t row) {
  std::sort(dimensions.begin(), dimensions.end(), [](const StridedDimension& a, const StridedDimension& b) {
    return a.stride != b.stride ? a.stride < b.stride : a.count < b.count;
  });
  std::int64_t extent = row;
  for (const StridedDimension& dimension : dimensions) {
    if (dimension.count == 1) continue;
    if (dimension.stride < extent) return false;
    extent += dimension.stride * (dimension.count - 1);
  }
  return true;
}

void check_rows(const char* which, const RowStrides& strides, std::int64_t element_bytes) {
  check_stride(which, "_sequence_stride", strides.sequence, element_bytes);
  check_stride(which, "_token_stride", strides.token, element_bytes);
  check_stride(which, "_head_stride", strides.head, element_bytes);
}

void check_kv(const char* which, const KvStrides& strides, std::int64_t element_bytes) {
  check_stride(which, "_block_stride", strides.block, element_bytes);
  check_stride(which, "_head_stride", strides.head, element_bytes);
  check_stride(which, "_token_stride", strides.token, element_bytes);
}

// Keys and values must lie within what a GPU addresses, which keeps sums of offsets within 64 bits, too.
void check_span(const char* which, const KvStrides& strides, const DecodeShape& shape,
                const DecodeCall& call) {
  const auto span = [](std::int64_t count, std::int64_t stride) {
    return static_cast<double>(count) * static_cast<double>(stride);
  };
  const double elements = span(call.blocks, strides.block) + span(shape.kv_heads, strides.head) +
                          span(call.tokens_per_block(shape), strides.token) +
                          static_cast<double>(call.v_offset);
  if (elements * static_cast<double>(dtype_bytes(shape.kv_dtype())) <= kMaximumSpan) return;
  refuse_call("the strides, kv_blocks and capacity make " + std::string(which) +
              " span more than 2^56 bytes");
}

// The members in the order of the schema.
template <typename Self>
auto integer_members(Self& call) {
  return std::array{&call.q.sequence, &call.q.token, &call.q.head,   &call.o.sequence,
                    &call.o.token,    &call.o.head,  &call.k.block,  &call.k.head,
                    &call.k.token,    &call.v.block, &call.v.head,   &call.v.token,
                    &call.v_offset,   &call.blocks,  &call.capacity, &call.page_table_stride};
}

}  // namespace

DecodeCall::DecodeCall(const Call& call) : scale(call.reals[0]) {
  std::size_t position = 0;
  for (std::int64_t* member : integer_members(*this)) *member = call.integers[position++];
}

DecodeCall::DecodeCall(const DecodeShape& shape)
    : blocks(shape.default_blocks()),
      capacity(shape.paged() ? shape.default_pages() * shape.page : shape.context),
      page_table_stride(shape.default_pages()),
      scale(1 / std::sqrt(static_cast<double>(shape.head_dim))) {
  q = o = {shape.q_len * shape.q_heads * shape.head_dim, shape.q_heads * shape.head_dim, shape.head_dim};
  const std::int64_t tokens = tokens_per_block(shape), block = shape.kv_heads * tokens * shape.head_dim;
  k = shape.heads_first ? KvStrides{block, tokens * shape.head_dim, shape.head_dim}
                        : KvStrides{block, shape.head_dim, shape.kv_heads * shape.head_dim};
  v = k;
}

Call DecodeCall::call() const {
  Call call;
  std::size_t position = 0;
  for (const std::int64_t* member : integer_members(*this)) call.integers[position++] = *member;
  call.reals[0] = scale;
  return call;
}

std::int64_t DecodeCall::row_elements(const RowStrides& strides, const DecodeShape& shape) const {
  return (shape.batch - 1) * strides.sequence + (shape.q_len - 1) * strides.token +
         (shape.q_heads - 1) * strides.head + shape.head_dim;
}

std::int64_t DecodeCall::kv_elements(const KvStrides& strides, const DecodeShape& shape) const {
  return (blocks - 1) * strides.block + (shape.kv_heads - 1) * strides.head +
         (tokens_per_block(shape) - 1) * strides.token + shape.head_dim;
}

std::int64_t row_offset(const RowStrides& strides, const DecodeShape& shape, std::int64_t row) {
  return row / shape.q_heads / shape.q_len * strides.sequence +
         row / shape.q_heads % shape.q_len * strides.token + row % shape.q_heads * strides.head;
}

const CallSchema& decode_attention_call_schema() {
  static const CallSchema schema = {
      {{"q_sequence_stride", "elements from a sequence's queries to the next one's"},
       {"q_token_stride", "elements from a new token's queries to the next one's"},
       {"q_head_stride", "elements from a query head to the next"},
       {"o_sequence_stride", "elements from a sequence's outputs to the next one's"},
       {"o_token_stride", "elements from a new token's outputs to the next one's"},
       {"o_head_stride", "elements from an output head to the next"},
       {"k_block_stride", "elements from a page of keys (a sequence, if contiguous) to the next"},
       {"k_head_stride", "elements from a head of keys to the next"},
       {"k_token_stride", "elements from a token's keys to the next one's"},
       {"v_block_stride", "elements from a page of values (a sequence, if contiguous) to the next"},
       {"v_head_stride", "elements from a head of values to the next"},
       {"v_token_stride", "elements from a token's values to the next one's"},
       {"v_offset", "elements from the first key to the first value in one buffer; 0 if each has its own"},
       {"kv_blocks", "pages in the pool, or sequences that contiguous KV has room for"},
       {"capacity", "tokens that a sequence has room for; of pages, columns of the table times the page"},
       {"page_table_stride", "entries from a row of the page table to the next"}},
      {{"scale", "what q.k is multiplied by before the softmax"}}};
  return schema;
}

void check_decode_attention_call(const DecodeShape& shape, const DecodeCall& call) {
  const std::int64_t size = dtype_bytes(shape.dtype), kv_size = dtype_bytes(shape.kv_dtype());
  check_rows("q", call.q, size);
  check_rows("o", call.o, size);
  check_kv("k", call.k, kv_size);
  check_kv("v", call.v, kv_size);
  if (!are_disjoint(
          std::array<StridedDimension, 3>{
              {{call.o.sequence, shape.batch}, {call.o.token, shape.q_len}, {call.o.head, shape.q_heads}}},
          shape.head_dim)) {
    refuse_call("the strides of o let rows overlap");
  }
  check_range("v_offset", call.v_offset, 0, static_cast<std::int64_t>(kMaximumSpan) / kv_size);
  if (call.v_offset * kv_size % kAlignment != 0)
    refuse_call("v_offset=" + std::to_string(call.v_offset) + " is not a multiple of 16 bytes");
  check_range("capacity", call.capacity, shape.context, kMaximumCapacity);
  check_range("kv_blocks", call.blocks, shape.paged() ? 1 : shape.batch, kMaximumBlocks);
  check_span("k", call.k, shape, call);
  check_span("v", call.v, shape, call);
  if (!(std::isfinite(static_cast<float>(call.scale)) && call.scale > 0))
    refuse_call("scale must be positive and finite");
  if (!shape.paged()) return;
  if (call.capacity % shape.page != 0) {
    refuse_call("capacity=" + std::to_string(call.capacity) +
                " is not a multiple of page=" + std::to_string(shape.page));
  }
  check_range("page_table_stride", call.page_table_stride, call.capacity / shape.page, kMaximumBlocks);
}

}  // namespace moetune
