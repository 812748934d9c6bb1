#include <algorithm>

#include "attention_operator.h"
#include "operators.h"

namespace moetune::python {
namespace {

class PrefillOperator final : public AttentionOperator {
 public:
  PrefillOperator() : AttentionOperator(kSlots) {}

  const char* name() const override { return "prefill_attention"; }

  FamilyKey key(const Given& given) const override {
    const DLTensor &q = tensor(given, MOETUNE_PREFILL_Q, "q"),
                   &offsets = tensor(given, MOETUNE_PREFILL_Q_OFFSETS, "q_offsets");
    if (q.ndim != 3) refuse("'q' has " + std::to_string(q.ndim) + " dimensions; it must be [tokens, heads, head_dim]");
    if (offsets.ndim != 1 || offsets.shape[0] < 1) refuse("'q_offsets' must be [batch + 1]");
    check_k(given);
    const int64_t batch = offsets.shape[0] - 1;
    check_attention(given, batch);
    require(given, {MOETUNE_PREFILL_Q_OFFSETS, "q_offsets", kI32, 1, {batch + 1}});
    require_if_given(given, {MOETUNE_PREFILL_KV_OFFSETS, "kv_offsets", kI32, 1, {batch + 1}});
    require_if_given(given, {MOETUNE_PREFILL_KV_LENGTHS, "seq_lens", kI32, 1, {batch}});
    check_options(given);
    return family_key(given, given.integers[kPrefillCausal], 1);
  }

  FreeExtents extents(const Given& given) const override {
    return stated(given, {{given.tensors[MOETUNE_PREFILL_Q_OFFSETS]->shape[0] - 1, kv_heads(given),
                           given.tensors[MOETUNE_PREFILL_Q]->shape[0], room(given)},
                          4});
  }

  bool is_idle(const Given& given) const override { return given.tensors[MOETUNE_PREFILL_Q]->shape[0] == 0; }

  moetune_choice choose(const Given& given, moetune_family* family, const FreeExtents& room) const override {
    const FreeExtents most = stated(given, room);
    const int64_t begin = given.integers[kPrefillMinKv], last = most.values[3];
    const int64_t tokens = given.tensors[MOETUNE_PREFILL_Q]->shape[0];
    moetune_choice choice;
    if (begin == 0 && !given.capturing) {
      check(moetune_pick(family, most.values.data(), 4, tokens, &choice));
      return choice;
    }
    int64_t extents[] = {most.values[0], most.values[1], most.values[2], std::max(begin, most.values[2])};
    check(moetune_pick_range(family, extents, 4, last, tokens, &choice));
    return choice;
  }

 private:
  static constexpr OtherName kOtherNames[] = {
      {"o", "out"}, {"kv_lengths", "seq_lens"}, {"seqlen_q", "max_q"}, {"seqlen_kv", "max_kv"}};
  static constexpr const char* kLengths[] = {"seqlen_q", "seqlen_kv"};
  static constexpr Slots kSlots =
      MOETUNE_ATTENTION_SLOTS(PREFILL, MOETUNE_PREFILL_Q_SCALE, "k", "v", kLengths, kOtherNames);

  // The extents with max_q and max_kv for what tensors have room for. Tokens include the new ones.
  static FreeExtents stated(const Given& given, FreeExtents room) {
    if (given.integers[kPrefillMaxQ] > 0) room.values[2] = given.integers[kPrefillMaxQ];
    if (given.integers[kPrefillMaxKv] > 0) room.values[3] = given.integers[kPrefillMaxKv];
    room.values[3] = std::max(room.values[2], room.values[3]);
    return room;
  }

  void check_k(const Given& given) const {
    const DLTensor& k = tensor(given, MOETUNE_PREFILL_K, "k");
    if (is_paged(given) != has(given, MOETUNE_PREFILL_KV_LENGTHS) ||
        is_paged(given) == has(given, MOETUNE_PREFILL_KV_OFFSETS))
      refuse("paged k and v need page_table and seq_lens, others kv_offsets alone");
    if (is_paged(given) && k.ndim != 4)
      refuse("'k' has " + std::to_string(k.ndim) +
             " dimensions; with page_table it must be [pages, page, kv_heads, head_dim] (NHD) or [pages, "
             "kv_heads, page, head_dim] (HND)");
    if (!is_paged(given) && k.ndim != 3)
      refuse("'k' has " + std::to_string(k.ndim) +
             " dimensions; without page_table it must be [tokens, kv_heads, head_dim] (NHD) or [kv_heads, "
             "tokens, head_dim] (HND)");
  }

  void check_options(const Given& given) const {
    const auto& integers = given.integers;
    const int64_t max_q = integers[kPrefillMaxQ], max_kv = integers[kPrefillMaxKv], min_kv = integers[kPrefillMinKv];
    require_at_least(0, "max_q", max_q);
    require_at_least(0, "max_kv", max_kv);
    require_at_least(0, "min_kv", min_kv);
    require_at_least(0, "window", integers[kWindow]);
    if (integers[kWindow] != 0 && integers[kPrefillCausal] == 0)
      refuse("window is " + std::to_string(integers[kWindow]) + "; it needs causal=True");
    if (is_idle(given)) return;  // nothing is read
    check_room(given);
    const int64_t tokens = given.tensors[MOETUNE_PREFILL_Q]->shape[0], most = room(given);
    if (max_q > tokens) refuse("max_q is " + std::to_string(max_q) + "; q has " + std::to_string(tokens) + " tokens");
    if (max_kv > std::max(tokens, most))
      refuse("max_kv is " + std::to_string(max_kv) + "; page_table, k and v have room for " + std::to_string(most));
    if (const int64_t last = extents(given).values[3]; min_kv > last)
      refuse("min_kv is " + std::to_string(min_kv) + "; the longest sequence has " + std::to_string(last) + " tokens");
  }
};

}  // namespace

const Operator& prefill_operator() {
  static const PrefillOperator made;
  return made;
}

}  // namespace moetune::python
