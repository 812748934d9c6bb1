// A decode_attention problem as numbers: shape, how KV lies in memory, and how long each sequence is.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/kernel.h"
#include "kernels/problem.h"

namespace moetune {

struct DecodeShape {
  explicit DecodeShape(const Problem& problem);

  // The same family at other extents: batch, KV heads, context.
  DecodeShape at(const Extents& extents) const;
  // The compiled-in dimensions, with the heads that share a KV head in place of the numbers of heads.
  Assignment specialization() const;

  std::int64_t group() const { return q_heads / kv_heads; }
  bool paged() const { return page > 0; }
  // Rows of queries and outputs that share a KV head.
  std::int64_t packed_rows() const { return q_len * group(); }
  std::int64_t query_rows() const { return batch * q_len * q_heads; }
  std::int64_t pages_of(std::int64_t length) const { return (length + page - 1) / page; }
  // Entries of a sequence's row in the page table if the caller states none: more than any sequence needs, so
  // that every row has a tail.
  std::int64_t default_pages() const { return paged() ? pages_of(context) + 2 : 0; }
  // The first token of a sequence that any of its queries sees, and the first page that holds such tokens.
  std::int64_t first_visible(std::int64_t length) const;
  std::int64_t first_page(std::int64_t length) const { return first_visible(length) / page; }
  std::int64_t used_pages() const;
  // Pages (more than are used) or sequences in the KV tensors if the caller states none.
  std::int64_t default_blocks() const;
  DType kv_dtype() const { return narrow ? DType::e4m3 : dtype; }
  std::int64_t kv_scales() const { return head_scales ? kv_heads : 1; }  // of keys, and as many of values

  // The lengths of the sequences, new tokens included, in an order that is the problem's own. With ragged
  // lengths they are uniform in [1, context] and hold one `context`, from two sequences on one 1, and from
  // three on one 0. They are the same for every seed, so that every seed means the same amount of work;
  // inputs shuffle them.
  std::vector<std::int64_t> lengths() const;

  std::int64_t batch, q_heads, kv_heads, head_dim, context, page, window;
  std::int64_t softcap;  // what scaled scores are bounded by; 0: nothing
  std::int64_t q_len;
  DType dtype;
  bool ragged;
  bool heads_first;  // [block, head, token, dim]; else [block, token, head, dim]
  bool sinks;        // a logit of every query head joins the softmax denominator
  bool narrow;       // keys and values are e4m3 with scales
  bool head_scales;  // narrow: a scale for every KV head, not for the whole tensor
  bool lse;          // the logarithm of that denominator is an output
};

const ProblemSchema& decode_attention_schema();
const std::vector<Preset>& decode_attention_presets();
// Models that people look for, and whose attention is another kernel.
std::string decode_attention_advice(std::string_view preset);
void check_decode_attention(const Problem& problem);  // throws BadInput
// The limit on a problem's size that the shape exceeds, in words; nullopt if it keeps to all.
std::optional<std::string> exceeded_size(const DecodeShape& shape);
// Throws BadInput for a specialization or extents that no problem has.
Problem decode_attention_problem_of(const Assignment& specialization, const Extents& extents);
Cost decode_attention_cost(const DecodeShape& shape);

}  // namespace moetune
