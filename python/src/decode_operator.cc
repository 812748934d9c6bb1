#include "decode_operator.h"

#include "attention_operator.h"

namespace moetune::python {
namespace {

struct DecodeFacts {
  int64_t group, head_dim, page, window, q_len, dtype, kv_dtype, heads_first, lse, sinks, head_scales;
};

class DecodeOperator final : public AttentionOperator {
 public:
  DecodeOperator() : AttentionOperator(kSlots) {}

  const char* name() const override { return "decode_attention"; }
  size_t tensor_count() const override { return MOETUNE_DECODE_V_SCALE + 1; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& q = tensor(given, MOETUNE_DECODE_Q, "q");
    const DLTensor& k = tensor(given, MOETUNE_DECODE_K, "k_cache");
    if (q.ndim != 3 && q.ndim != 4)
      refuse("'q' has " + std::to_string(q.ndim) +
             " dimensions; it must be [batch, heads, head_dim] or [batch, q_len, heads, head_dim]");
    if (k.ndim != 4)
      refuse("'k_cache' has " + std::to_string(k.ndim) +
             " dimensions; it must be [pages, page, kv_heads, head_dim] (NHD) or [pages, kv_heads, page, "
             "head_dim] (HND)");
    check_attention(given, q.shape[0]);
    require(given, {MOETUNE_DECODE_LENGTHS, "seq_lens", kI32, 1, {q.shape[0]}});
    if (!is_paged(given) && k.shape[0] < q.shape[0])
      refuse("'k_cache' has room for " + std::to_string(k.shape[0]) + " sequences; 'q' has " +
             std::to_string(q.shape[0]));
    check_options(given);
    FamilyKey key{.of = this, .device = q.device.device_id};
    key.set(DecodeFacts{
        .group = q.shape[q.ndim - 2] / kv_heads(given),
        .head_dim = q.shape[q.ndim - 1],
        .page = is_paged(given) ? tokens_of_block(given) : 0,
        .window = given.integers[kWindow],
        .q_len = q.ndim == 4 ? q.shape[1] : 1,
        .dtype = number_of(q.dtype),
        .kv_dtype = number_of(k.dtype),
        .heads_first = given.integers[kHeadsFirst],
        .lse = int64_t{has(given, MOETUNE_DECODE_LSE)},
        .sinks = int64_t{has(given, MOETUNE_DECODE_SINKS)},
        .head_scales = int64_t{has_head_scales(given)},
    });
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<DecodeFacts>();
    return "group=" + std::to_string(facts.group) + "," + but_group(facts);
  }

  std::string problem(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<DecodeFacts>();
    const FreeExtents now = extents(given);
    return "batch=" + std::to_string(now.values[0]) +
           ",q_heads=" + std::to_string(now.values[1] * facts.group) +
           ",kv_heads=" + std::to_string(now.values[1]) + ",context=" + std::to_string(now.values[2]) + "," +
           but_group(facts);
  }

  FreeExtents extents(const Given& given) const override {
    return {{given.tensors[MOETUNE_DECODE_Q]->shape[0], kv_heads(given), last_context(given)}, 3};
  }

  TensorShapes outputs(const Given& given, const FamilyKey&) const override {
    const DLTensor& q = *given.tensors[MOETUNE_DECODE_Q];
    TensorShape out{MOETUNE_DECODE_O, "out", q.dtype, q.ndim, {}};
    std::copy_n(q.shape, q.ndim, out.sizes.begin());
    TensorShapes made;
    made.add(out);
    return made;
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_DECODE_SCALE] = given.scale;
  }

  moetune_choice choose(const Given& given, moetune_family* family, const FreeExtents& most) const override {
    const int64_t begin = given.integers[kMinContext], last = last_context(given);
    int64_t extents[] = {most.values[0], most.values[1], last};
    moetune_choice choice;
    if (begin == 0 && !given.capturing) {
      check(moetune_pick(family, extents, 3, given.integers[kTotalTokens], &choice));
      return choice;
    }
    extents[2] = begin != 0 ? begin : 1;
    check(moetune_pick_range(family, extents, 3, last, given.integers[kTotalTokens], &choice));
    return choice;
  }

 private:
  static constexpr OtherName kOtherNames[] = {
      {"o", "out"}, {"k", "k_cache"}, {"v", "v_cache"}, {"lengths", "seq_lens"}, {"context", "max_context"}};
  static constexpr Slots kSlots = MOETUNE_ATTENTION_SLOTS(DECODE, "k_cache", "v_cache", kOtherNames);

  int64_t last_context(const Given& given) const {
    const int64_t stated = given.integers[kMaxContext];
    return stated > 0 ? stated : room(given);
  }

  void check_options(const Given& given) const {
    const int64_t first = given.integers[kMinContext], last = last_context(given), most = room(given);
    require_at_least(0, "max_context", given.integers[kMaxContext]);
    require_at_least(0, "min_context", first);
    require_at_least(0, "total_tokens", given.integers[kTotalTokens]);
    require_at_least(0, "window", given.integers[kWindow]);
    if (given.tensors[MOETUNE_DECODE_Q]->shape[0] == 0) return;  // nothing is read
    check_room(given);
    if (last > most)
      refuse("max_context is " + std::to_string(last) + "; page_table and cache have room for " +
             std::to_string(most));
    if (first > last)
      refuse("min_context is " + std::to_string(first) + "; the longest context is " + std::to_string(last));
  }

  std::string but_group(const DecodeFacts& facts) const {
    std::string text = "head_dim=" + std::to_string(facts.head_dim) + ",page=" + std::to_string(facts.page) +
                       ",dtype=" + dtype_name(facts.dtype);
    if (facts.dtype != facts.kv_dtype) text += ",kv_dtype=e4m3";
    if (facts.window != 0) text += ",window=" + std::to_string(facts.window);
    if (facts.q_len != 1) text += ",q_len=" + std::to_string(facts.q_len);
    if (facts.lse != 0) text += ",lse=natural";
    if (facts.sinks != 0) text += ",sinks=learned";
    if (facts.head_scales != 0) text += ",kv_scale=head";
    return text;
  }
};

}  // namespace

const Operator& decode_operator() {
  static const DecodeOperator made;
  return made;
}

}  // namespace moetune::python
