#include "operators.h"
#include "tokens_operator.h"

namespace moetune::python {
namespace {

struct RopeFacts {
  int64_t q_heads, kv_heads, head_dim, rotary_dim, is_fp16, tables, normed, neighbors, page;
};

class RopeOperator final : public TokensOperator {
 public:
  explicit RopeOperator(bool paged) : paged_(paged) {}

  const char* name() const override { return paged_ ? "qk_norm_rope_kv_write" : "qk_norm_rope"; }
  const char* kernel() const override { return "qk_norm_rope"; }
  size_t tensor_count() const override { return MOETUNE_QK_NORM_ROPE_V_CACHE + 1; }
  int tokens_slot() const override { return MOETUNE_QK_NORM_ROPE_QKV; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& qkv = matrix(given, MOETUNE_QK_NORM_ROPE_QKV, "qkv", "[tokens, heads * head_dim]");
    const DLTensor& cos = matrix(given, MOETUNE_QK_NORM_ROPE_COS, "cos", "[tokens, rotary_dim / 2]");
    require_half(qkv, "qkv");
    require_side_by_side(qkv, "qkv");
    const int64_t q_heads = given.integers[kRopeQHeads], kv_heads = given.integers[kRopeKvHeads];
    require_at_least(1, "q_heads", q_heads);
    require_at_least(1, "kv_heads", kv_heads);
    const int64_t heads = q_heads + 2 * kv_heads, rotary_dim = 2 * cos.shape[1];
    if (q_heads > 256 || kv_heads > 256 || qkv.shape[1] % heads != 0)
      refuse("'qkv' has rows of " + std::to_string(qkv.shape[1]) + "; they must be " + std::to_string(heads) +
             " heads of one size, at most 256 of queries and of keys");
    FamilyKey key{.of = this, .device = qkv.device.device_id};
    const RopeFacts facts{.q_heads = q_heads,
                          .kv_heads = kv_heads,
                          .head_dim = qkv.shape[1] / heads,
                          .rotary_dim = rotary_dim,
                          .is_fp16 = number_of(qkv.dtype) == number_of(kF16),
                          .tables = table_type(cos),
                          .normed = given.tensors[MOETUNE_QK_NORM_ROPE_Q_WEIGHT] != nullptr,
                          .neighbors = given.integers[kInterleaved],
                          .page = paged_ ? page_of(given) : 0};
    key.set(facts);
    check_sizes(facts);
    check_inputs(given, facts);
    check_outputs(given, key);
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<RopeFacts>();
    std::string text = "q_heads=" + std::to_string(facts.q_heads) + pair("kv_heads", facts.kv_heads) +
                       pair("head_dim", facts.head_dim) + pair("rotary_dim", facts.rotary_dim);
    if (facts.is_fp16 != 0) text += ",dtype=f16";
    if (facts.tables != 0) text += facts.tables == 1 ? ",tables=bf16" : ",tables=f16";
    if (facts.normed == 0) text += ",norm=no";
    if (facts.neighbors != 0) text += ",pairs=neighbors";
    return paged_ ? text + ",kv=pages" + pair("page", facts.page) : text;
  }

  TensorShapes outputs(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<RopeFacts>();
    const DLTensor& qkv = *given.tensors[MOETUNE_QK_NORM_ROPE_QKV];
    const int64_t tokens = qkv.shape[0];
    TensorShapes made;
    made.add({MOETUNE_QK_NORM_ROPE_Q, "q", qkv.dtype, 3, {tokens, facts.q_heads, facts.head_dim}, true});
    if (!paged_)
      made.add({MOETUNE_QK_NORM_ROPE_K, "k", qkv.dtype, 3, {tokens, facts.kv_heads, facts.head_dim}, true});
    return made;
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_QK_NORM_ROPE_EPS] = given.scale;
  }

 private:
  // As the kernel's dimension counts them.
  int64_t table_type(const DLTensor& cos) const {
    constexpr DLDataType kTables[] = {kF32, kBf16, kF16};
    for (int64_t i = 0; i < 3; ++i)
      if (number_of(cos.dtype) == number_of(kTables[i])) return i;
    refuse("'cos' is " + type_text(cos.dtype) + "; it must be fp32, bf16 or fp16");
  }

  int64_t page_of(const Given& given) const {
    const DLTensor& cache = tensor(given, MOETUNE_QK_NORM_ROPE_K_CACHE, "k_cache");
    if (cache.ndim != 4 || cache.shape[1] < 1 || cache.shape[1] > 1024)
      refuse("'k_cache' must be [pages, page, kv_heads, head_dim], with pages of at most 1024 slots");
    return cache.shape[1];
  }

  void check_sizes(const RopeFacts& of) const {
    if (of.head_dim < 16 || of.head_dim > 512 || of.head_dim % 8 != 0)
      refuse("head_dim is " + std::to_string(of.head_dim) + "; it must be a multiple of 8, from 16 to 512");
    if (of.rotary_dim < 16 || of.rotary_dim % 16 != 0 || of.rotary_dim > of.head_dim)
      refuse("'cos' turns " + std::to_string(of.rotary_dim) + " values of a head of " +
             std::to_string(of.head_dim) + "; it must be a multiple of 16, at most all of them");
  }

  void check_inputs(const Given& given, const RopeFacts& of) const {
    const DLTensor &qkv = *given.tensors[MOETUNE_QK_NORM_ROPE_QKV],
                   &cos = *given.tensors[MOETUNE_QK_NORM_ROPE_COS];
    const int64_t tokens = qkv.shape[0];
    require(given, {MOETUNE_QK_NORM_ROPE_COS, "cos", cos.dtype, 2, {tokens, of.rotary_dim / 2}, true});
    require(given, {MOETUNE_QK_NORM_ROPE_SIN, "sin", cos.dtype, 2, {tokens, of.rotary_dim / 2}, true});
    if (of.normed != 0 || given.tensors[MOETUNE_QK_NORM_ROPE_K_WEIGHT] != nullptr) {
      require(given, {MOETUNE_QK_NORM_ROPE_Q_WEIGHT, "q_weight", qkv.dtype, 1, {of.head_dim}});
      require(given, {MOETUNE_QK_NORM_ROPE_K_WEIGHT, "k_weight", qkv.dtype, 1, {of.head_dim}});
    }
    if (!paged_) return;
    require(given, {MOETUNE_QK_NORM_ROPE_SLOTS, "slots", kI64, 1, {tokens}});
    for (const auto& [slot, name] :
         {std::pair{MOETUNE_QK_NORM_ROPE_K_CACHE, "k_cache"}, {MOETUNE_QK_NORM_ROPE_V_CACHE, "v_cache"}})
      require(given, {slot,
                      name,
                      qkv.dtype,
                      4,
                      {tensor(given, slot, name).shape[0], of.page, of.kv_heads, of.head_dim},
                      true});
  }

  const bool paged_;
};

}  // namespace

const Operator& rope_operator() {
  static const RopeOperator made(false);
  return made;
}

const Operator& rope_write_operator() {
  static const RopeOperator made(true);
  return made;
}

}  // namespace moetune::python
