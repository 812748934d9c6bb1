#include "attention_operator.h"
#include "operators.h"

namespace moetune::python {
namespace {

class DecodeOperator final : public AttentionOperator {
 public:
  DecodeOperator() : AttentionOperator(kSlots) {}

  const char* name() const override { return "decode_attention"; }

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
    return family_key(given, 1, q.ndim == 4 ? q.shape[1] : 1);
  }

  FreeExtents extents(const Given& given) const override {
    return {{given.tensors[MOETUNE_DECODE_Q]->shape[0], kv_heads(given), last_context(given)}, 3};
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    AttentionOperator::complete(given, arguments);
    arguments.integers[MOETUNE_DECODE_KV_SETTLED] = given.integers[kKvSettled];
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
  static constexpr const char* kLengths[] = {"context"};
  static constexpr Slots kSlots = MOETUNE_ATTENTION_SLOTS(DECODE, -1, "k_cache", "v_cache", kLengths, kOtherNames);

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
      refuse("max_context is " + std::to_string(last) + "; page_table and cache have room for " + std::to_string(most));
    if (first > last)
      refuse("min_context is " + std::to_string(first) + "; the longest context is " + std::to_string(last));
  }
};

}  // namespace

const Operator& decode_operator() {
  static const DecodeOperator made;
  return made;
}

}  // namespace moetune::python
