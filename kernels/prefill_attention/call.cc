#include "kernels/prefill_attention/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr CallRules kPrefillRules("prefill_attention");
constexpr std::int64_t kMostQueryRows = std::int64_t{1} << 30;  // of queries

// The members in the order of the schema.
template <typename Self>
auto prefill_members(Self& call) {
  return std::array{&call.q.token,  &call.q.head,   &call.o.token, &call.o.head,   &call.k.block,
                    &call.k.head,   &call.k.token,  &call.v.block, &call.v.head,   &call.v.token,
                    &call.v_offset, &call.q_tokens, &call.blocks,  &call.capacity, &call.page_table_stride};
}

void check_prefill_rows(const char* which, DType type, const TokenStrides& strides, const PrefillShape& shape,
                        std::int64_t tokens) {
  const std::int64_t size = dtype_bytes(type);
  kPrefillRules.check_stride(which, "_token_stride", strides.token, size);
  kPrefillRules.check_stride(which, "_head_stride", strides.head, size);
  const StridedDimension dimensions[] = {{strides.token, tokens}, {strides.head, shape.q_heads}};
  kPrefillRules.check_span(which, dimensions, size);
}

}  // namespace

PrefillCall::PrefillCall(const Call& call) : scale(call.reals[0]) {
  std::size_t position = 0;
  for (std::int64_t* member : prefill_members(*this)) *member = call.integers[position++];
}

PrefillCall::PrefillCall(const PrefillShape& shape)
    : blocks(1), scale(1 / std::sqrt(static_cast<double>(shape.head_dim))) {
  const PrefillTotals totals(shape);
  q = o = {shape.q_heads * shape.head_dim, shape.head_dim};
  q_tokens = totals.new_tokens + (shape.ragged ? 3 : 0);
  capacity = totals.tokens + 5;
  if (shape.paged()) {
    blocks = totals.pages + std::max<std::int64_t>(3, totals.pages / 16);
    page_table_stride = ceil_div(shape.seqlen_kv, shape.page) + 2;
    capacity = page_table_stride * shape.page;
  }
  const std::int64_t tokens = shape.paged() ? shape.page : capacity;
  const std::int64_t block = shape.kv_heads * tokens * shape.head_dim;
  k = shape.heads_first ? KvStrides{block, tokens * shape.head_dim, shape.head_dim}
                        : KvStrides{block, shape.head_dim, shape.kv_heads * shape.head_dim};
  v = k;
}

Call PrefillCall::call() const {
  Call call;
  std::size_t position = 0;
  for (const std::int64_t* member : prefill_members(*this)) call.integers[position++] = *member;
  call.reals[0] = scale;
  return call;
}

// Contiguous KV is one block, whose stride may be anything.
KvTensors PrefillCall::kv(const PrefillShape& shape) const {
  KvTensors kv{shape.kv_dtype(),
               shape.head_dim,
               shape.kv_heads,
               shape.paged() ? blocks : 1,
               shape.paged() ? shape.page : capacity,
               k,
               v,
               v_offset};
  if (!shape.paged()) kv.k.block = kv.v.block = shape.head_dim;
  return kv;
}

std::int64_t PrefillCall::row_elements(const TokenStrides& strides, const PrefillShape& shape) const {
  return (q_tokens - 1) * strides.token + (shape.q_heads - 1) * strides.head + shape.head_dim;
}

const CallSchema& prefill_attention_call_schema() {
  static const CallSchema schema = {
      {{"q_token_stride", "elements from a token's queries to the next one's"},
       {"q_head_stride", "elements from a query head to the next"},
       {"o_token_stride", "elements from a token's outputs to the next one's"},
       {"o_head_stride", "elements from an output head to the next"},
       {"k_block_stride", "elements from a page of keys to the next; any, if contiguous"},
       {"k_head_stride", "elements from a head of keys to the next"},
       {"k_token_stride", "elements from a token's keys to the next one's"},
       {"v_block_stride", "elements from a page of values to the next; any, if contiguous"},
       {"v_head_stride", "elements from a head of values to the next"},
       {"v_token_stride", "elements from a token's values to the next one's"},
       {"v_offset", "elements from the first key to the first value in one buffer; 0 if each has its own"},
       {"q_tokens", "rows of queries and outputs, at least as many as q_offsets use"},
       {"kv_blocks", "pages in the pool; 1, if contiguous"},
       {"capacity", "tokens that KV has room for; of pages, columns of the table times the page"},
       {"page_table_stride", "entries from a row of the page table to the next"}},
      {{"scale", "what q.k is multiplied by before the softmax"}}};
  return schema;
}

void check_prefill_attention_call(const PrefillShape& shape, const PrefillCall& call) {
  kPrefillRules.check_range("q_tokens", call.q_tokens, 1, kMostQueryRows);
  check_prefill_rows("q", shape.q_dtype(), call.q, shape, call.q_tokens);
  check_prefill_rows("o", shape.dtype, call.o, shape, call.q_tokens);
  // The copy engine steps from the heads of one KV head to those of the next.
  kPrefillRules.check_stride("q", "_head_stride times the heads of a KV head", call.q.head * shape.group(),
                             dtype_bytes(shape.q_dtype()));
  kPrefillRules.check_range("kv_blocks", call.blocks, 1, shape.paged() ? kMaximumBlocks : 1);
  kPrefillRules.check_range("capacity", call.capacity, shape.paged() ? shape.seqlen_kv : 1, kMaximumCapacity);
  kPrefillRules.check_kv(call.kv(shape));
  std::array<StridedDimension, 2> rows = {{{call.o.token, call.q_tokens}, {call.o.head, shape.q_heads}}};
  kPrefillRules.check_disjoint("o", rows, shape.head_dim);
  kPrefillRules.check_scale(call.scale);
  if (!shape.paged()) return;
  if (call.capacity % shape.page != 0) {
    kPrefillRules.refuse("capacity=" + std::to_string(call.capacity) +
                         " is not a multiple of page=" + std::to_string(shape.page));
  }
  kPrefillRules.check_range("page_table_stride", call.page_table_stride, call.capacity / shape.page, kMaximumBlocks);
}

}  // namespace moetune
