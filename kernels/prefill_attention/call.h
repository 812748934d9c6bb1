// The layout that a caller of prefill_attention chooses: where rows of queries, outputs, keys and values lie, the
// number of rows of queries, the size of the KV pool, the width of the page table, and the scale of the scores. The
// elements of a head lie together. Plain values; thread-safe.
#pragma once

#include <cstdint>

#include "kernels/attention/call.h"
#include "kernels/call.h"
#include "kernels/prefill_attention/problem.h"

namespace moetune {

// Elements between neighbouring rows of queries or outputs, [token, query head].
struct TokenStrides {
  std::int64_t token = 0;
  std::int64_t head = 0;
};

struct PrefillCall {
  TokenStrides q, o;
  KvStrides k, v;             // a block is a page; without pages there is one, of all tokens
  std::int64_t v_offset = 0;  // elements from K's start to V's in one buffer; 0: V has a buffer of its own
  std::int64_t q_tokens = 0;  // rows of queries and outputs, of which offsets may use fewer
  std::int64_t blocks = 0;    // pages in the pool; 1 without pages
  // Tokens that there is room for: in a row of the page table, or in all of contiguous KV. Longer lengths and
  // offsets are cut to it.
  std::int64_t capacity = 0;
  std::int64_t page_table_stride = 0;  // entries from a sequence's row of the page table to the next
  double scale = 1;                    // of q.k, before the softmax

  explicit PrefillCall(const Call& call);
  // Contiguous tensors, KV as the problem's layout has it, 1 / sqrt(head_dim), and a little more room than is used.
  explicit PrefillCall(const PrefillShape& shape);

  Call call() const;

  KvTensors kv(const PrefillShape& shape) const;
  // Elements from the first to behind the last of queries or outputs.
  std::int64_t row_elements(const TokenStrides& strides, const PrefillShape& shape) const;
};

const CallSchema& prefill_attention_call_schema();

// Throws BadInput for what no kernel of this family can run.
void check_prefill_attention_call(const PrefillShape& shape, const PrefillCall& call);

}  // namespace moetune
