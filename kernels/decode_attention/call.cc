#include "kernels/decode_attention/call.h"

#include <cmath>
#include <string>

namespace moetune {
namespace {

constexpr CallRules kRules("decode_attention");

void check_rows(const char* which, const RowStrides& strides, std::int64_t element_bytes) {
  kRules.check_stride(which, "_sequence_stride", strides.sequence, element_bytes);
  kRules.check_stride(which, "_token_stride", strides.token, element_bytes);
  kRules.check_stride(which, "_head_stride", strides.head, element_bytes);
}

// The members in the order of the schema.
template <typename Self>
auto integer_members(Self& call) {
  return std::array{
      &call.q.sequence, &call.q.token, &call.q.head,   &call.o.sequence,        &call.o.token,   &call.o.head,
      &call.k.block,    &call.k.head,  &call.k.token,  &call.v.block,           &call.v.head,    &call.v.token,
      &call.v_offset,   &call.blocks,  &call.capacity, &call.page_table_stride, &call.kv_settled};
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
  return (shape.batch - 1) * strides.sequence + (shape.q_len - 1) * strides.token + (shape.q_heads - 1) * strides.head +
         shape.head_dim;
}

KvTensors DecodeCall::kv(const DecodeShape& shape) const {
  return {shape.kv_dtype(), shape.head_dim, shape.kv_heads, blocks, tokens_per_block(shape), k, v, v_offset};
}

std::int64_t row_offset(const RowStrides& strides, const DecodeShape& shape, std::int64_t row) {
  return row / shape.q_heads / shape.q_len * strides.sequence + row / shape.q_heads % shape.q_len * strides.token +
         row % shape.q_heads * strides.head;
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
       {"page_table_stride", "entries from a row of the page table to the next"},
       {"kv_settled", "1: no launch that may still run writes lengths, page table or any but the newest tokens", true}},
      {{"scale", "what q.k is multiplied by before the softmax"}}};
  return schema;
}

void check_decode_attention_call(const DecodeShape& shape, const DecodeCall& call) {
  const std::int64_t size = dtype_bytes(shape.dtype);
  check_rows("q", call.q, size);
  check_rows("o", call.o, size);
  kRules.check_range("capacity", call.capacity, shape.context, kMaximumCapacity);
  kRules.check_range("kv_blocks", call.blocks, shape.paged() ? 1 : shape.batch, kMaximumBlocks);
  kRules.check_kv(call.kv(shape));
  std::array<StridedDimension, 3> rows = {
      {{call.o.sequence, shape.batch}, {call.o.token, shape.q_len}, {call.o.head, shape.q_heads}}};
  kRules.check_disjoint("o", rows, shape.head_dim);
  kRules.check_scale(call.scale);
  kRules.check_range("kv_settled", call.kv_settled, 0, 1);
  if (!shape.paged()) return;
  if (call.capacity % shape.page != 0) {
    kRules.refuse("capacity=" + std::to_string(call.capacity) +
                  " is not a multiple of page=" + std::to_string(shape.page));
  }
  kRules.check_range("page_table_stride", call.page_table_stride, call.capacity / shape.page, kMaximumBlocks);
}

}  // namespace moetune
