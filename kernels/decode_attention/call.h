// The layout that a caller of decode_attention chooses: where rows of queries, outputs, keys and values lie, the size
// of the KV pool, the width of the page table, and the scale of the scores. The elements of a head lie together.
// Plain values; thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/attention/call.h"
#include "kernels/call.h"
#include "kernels/decode_attention/problem.h"

namespace moetune {

// Elements between neighbouring rows of queries or outputs, [sequence, new token, query head].
struct RowStrides {
  std::int64_t sequence = 0;
  std::int64_t token = 0;
  std::int64_t head = 0;
};

struct DecodeCall {
  RowStrides q, o;
  KvStrides k, v;                      // a block is a page, or a sequence of contiguous KV
  std::int64_t v_offset = 0;           // elements from K's start to V's in one buffer; 0: V has a buffer of its own
  std::int64_t blocks = 0;             // pages in the pool, or sequences that contiguous KV has room for
  std::int64_t capacity = 0;           // tokens that a sequence has room for: longer lengths are cut to it
  std::int64_t page_table_stride = 0;  // entries from a sequence's row of the page table to the next
  std::int64_t kv_settled = 0;         // 1: what lies before the newest tokens may be read before the launch in front
                                       // has ended, as may lengths and page table
  double scale = 1;                    // of q.k, before the softmax

  explicit DecodeCall(const Call& call);
  // Contiguous tensors, KV as the problem's layout has it, 1 / sqrt(head_dim).
  explicit DecodeCall(const DecodeShape& shape);

  Call call() const;

  std::int64_t tokens_per_block(const DecodeShape& shape) const { return shape.paged() ? shape.page : capacity; }
  // Elements from the first to behind the last of queries or outputs.
  std::int64_t row_elements(const RowStrides& strides, const DecodeShape& shape) const;
  KvTensors kv(const DecodeShape& shape) const;
};

// The offset of a row, in elements; `row` counts [sequence, new token, query head].
std::int64_t row_offset(const RowStrides& strides, const DecodeShape& shape, std::int64_t row);

const CallSchema& decode_attention_call_schema();

// Throws BadInput for what no kernel of this family can run.
void check_decode_attention_call(const DecodeShape& shape, const DecodeCall& call);

}  // namespace moetune
