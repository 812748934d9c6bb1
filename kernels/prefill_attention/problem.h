// A prefill_attention problem as numbers: shape, how KV lies in memory, and how many tokens each sequence has.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/kernel.h"
#include "kernels/problem.h"

namespace moetune {

inline constexpr std::int64_t kMostSequences = 65535;
inline constexpr std::int64_t kMostKvHeads = 1024;                     // and as many query heads
inline constexpr std::int64_t kMostNewTokens = std::int64_t{1} << 20;  // of a sequence
inline constexpr std::int64_t kMostKvTokens = std::int64_t{1} << 22;   // of a sequence
inline constexpr std::int64_t kMostPrefillSplits = 32;  // of a row's tokens: spaces/prefill_attention.json

// Tokens of one sequence: its queries, which end it, and all that it has.
struct PrefillSequence {
  std::int64_t new_tokens = 0;
  std::int64_t tokens = 0;  // fewer than new_tokens: the first queries see nothing
};

struct PrefillShape {
  explicit PrefillShape(const Problem& problem);

  // The same family at other extents: batch, KV heads, most new tokens and most tokens of a sequence.
  PrefillShape at(const Extents& extents) const;
  // The compiled-in dimensions, with the heads that share a KV head in place of the numbers of heads.
  Assignment specialization() const;

  std::int64_t group() const { return q_heads / kv_heads; }
  bool paged() const { return page > 0; }
  DType kv_dtype() const { return narrow ? DType::e4m3 : dtype; }
  DType q_dtype() const { return narrow_queries ? DType::e4m3 : dtype; }
  // Scales of keys, and as many of values and of queries.
  std::int64_t kv_scales() const { return head_scales ? kv_heads : 1; }
  // Sequences have tokens from before this launch, which are not in L2.
  bool has_past() const { return seqlen_kv > seqlen_q; }

  // In an order that is the problem's own; inputs shuffle it. With ragged lengths, tokens are uniform in
  // [1, seqlen_kv] and new tokens from 1 to as many, and there are: the longest sequence; from two sequences on
  // one of a single token, from three on one without KV, from four on one without queries, and from five on one
  // with fewer tokens than queries. They are the same for every seed, so that every seed means the same work.
  std::vector<PrefillSequence> sequences() const;
  // Tokens that query `row` of a sequence sees, and those that any of its queries sees.
  Range visible(const PrefillSequence& sequence, std::int64_t row) const;
  Range visible(const PrefillSequence& sequence) const;

  std::int64_t batch, q_heads, kv_heads, head_dim, seqlen_q, seqlen_kv, page, window;
  std::int64_t softcap;  // what scaled scores are bounded by; 0: nothing
  DType dtype;
  bool causal;
  bool ragged;
  bool heads_first;     // heads before tokens, in a page or in contiguous KV
  bool sinks;           // a logit of every query head joins the softmax denominator
  bool lse;             // the logarithm of that denominator is an output
  bool narrow;          // keys and values are e4m3 with scales
  bool head_scales;     // narrow: a scale for every KV head, not for the whole tensor
  bool narrow_queries;  // queries are e4m3 with scales, too
};

// Over all sequences.
struct PrefillTotals {
  explicit PrefillTotals(const PrefillShape& shape);

  std::int64_t new_tokens = 0, tokens = 0;
  std::int64_t pages = 0;         // that hold what some query sees
  double visible = 0, pairs = 0;  // tokens that some query sees; queries times the tokens that each sees
};

const ProblemSchema& prefill_attention_schema();
const std::vector<Preset>& prefill_attention_presets();
void check_prefill_attention(const Problem& problem);  // throws BadInput
// Throws BadInput for extents that no problem has.
void check_prefill_extents(const Extents& extents, std::int64_t group);
// Throws BadInput for a specialization or extents that no problem has.
Problem prefill_attention_problem_of(const Assignment& specialization, const Extents& extents);
Cost prefill_attention_cost(const PrefillShape& shape);

}  // namespace moetune
