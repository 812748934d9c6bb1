// Base of the operators decode_attention and prefill_attention: keys and values, pages, and their options. Stateless;
// thread-safe.
#pragma once

#include "operator.h"

// The Slots of one: the names that moetune_kernels.h has for both kernels, after KERNEL.
#define MOETUNE_ATTENTION_SLOTS(KERNEL, q_scale, k_name, v_name, lengths, other_names)                      \
  {                                                                                                         \
    MOETUNE_##KERNEL##_Q, MOETUNE_##KERNEL##_K, MOETUNE_##KERNEL##_V, MOETUNE_##KERNEL##_PAGE_TABLE,        \
        MOETUNE_##KERNEL##_O, MOETUNE_##KERNEL##_LSE, MOETUNE_##KERNEL##_SINKS, MOETUNE_##KERNEL##_K_SCALE, \
        MOETUNE_##KERNEL##_V_SCALE, q_scale, MOETUNE_##KERNEL##_SCALE, k_name, v_name, lengths, other_names \
  }

namespace moetune::python {

class AttentionOperator : public Operator {
 public:
  const char* kernel() const override { return name(); }
  std::string specialization(const FamilyKey& key) const override;
  std::string problem(const Given& given, const FamilyKey& key) const override;
  TensorShapes outputs(const Given& given, const FamilyKey& key) const override;
  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[slots_.scale] = given.scale;
  }
  const char* bind_options(const Given& given) const override {
    return is_heads_first(given) ? "layout=heads_first" : "layout=tokens_first";
  }

 protected:
  // Tensors and their names, where the two differ.
  struct Slots {
    int q, k, v, page_table, out, lse, sinks, k_scale, v_scale;
    int q_scale;  // -1: queries are never e4m3
    int scale;    // of the reals
    const char *k_name, *v_name;
    std::span<const char* const> lengths;  // the problem's dimensions after kv_heads
    std::span<const OtherName> other_names;
  };
  explicit constexpr AttentionOperator(const Slots& slots) : slots_(slots) {}

  std::span<const OtherName> other_names() const override { return slots_.other_names; }

  static bool is_heads_first(const Given& given) { return given.integers[0] != 0; }
  bool has(const Given& given, int slot) const { return given.tensors[slot] != nullptr; }
  bool is_paged(const Given& given) const { return has(given, slots_.page_table); }
  bool is_narrow(const Given& given) const { return number_of(given.tensors[slots_.k]->dtype) == number_of(kE4m3); }
  bool has_narrow_queries(const Given& given) const {
    return number_of(given.tensors[slots_.q]->dtype) == number_of(kE4m3);
  }
  // The outputs' type: that of queries, or of narrow ones `out`'s, or bf16.
  DLDataType output_type(const Given& given) const {
    if (!has_narrow_queries(given)) return given.tensors[slots_.q]->dtype;
    return has(given, slots_.out) ? given.tensors[slots_.out]->dtype : kBf16;
  }
  // Whether scales are those of KV heads.
  bool has_head_scales(const Given& given) const {
    const DLTensor* scale = given.tensors[slots_.k_scale];
    return scale != nullptr && scale->ndim == 1 && scale->shape[0] > 1;
  }

  int64_t kv_heads(const Given& given) const { return kv_size(given, is_heads_first(given) ? 3 : 2); }
  // Tokens of a page; without pages all that a sequence, or all sequences together, have room for.
  int64_t tokens_of_block(const Given& given) const { return kv_size(given, is_heads_first(given) ? 2 : 3); }
  // Tokens that a sequence has room for.
  int64_t room(const Given& given) const {
    const DLTensor* table = given.tensors[slots_.page_table];
    return tokens_of_block(given) * (table != nullptr && table->ndim == 2 ? table->shape[1] : 1);
  }

  // Throws unless all but the new tokens' lengths and offsets is sound. q has at least two dimensions, k as many as the
  // operator takes; there are `batch` sequences.
  void check_attention(const Given& given, int64_t batch) const;

  void check_room(const Given& given) const;  // throws unless there is room for a token

  // The family that serves a call whose q is [..., q_len, heads, head_dim].
  FamilyKey family_key(const Given& given, int64_t causal, int64_t q_len) const;

 private:
  int64_t kv_size(const Given& given, int from_last) const {
    const DLTensor& k = *given.tensors[slots_.k];
    return k.shape[k.ndim - from_last];
  }
  void check_heads(const Given& given) const;
  void check_kv(const Given& given) const;
  void check_scale(const Given& given, int slot, const char* name) const;
  void check_scales(const Given& given) const;
  void check_pages(const Given& given, int64_t batch) const;
  void check_outputs(const Given& given) const;

  const Slots& slots_;
};

}  // namespace moetune::python
