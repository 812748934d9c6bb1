#include "prefill_operator.h"

#include <algorithm>

namespace moetune::python {
namespace {

struct PrefillFacts {
  int64_t group, head_dim, causal, page, window, dtype, kv_dtype, heads_first, lse, sinks, head_scales;
};

constexpr DLDataType kPrefillE4m3{kDLFloat8_e4m3fn, 8, 1};
constexpr DLDataType kPrefillF32{kDLFloat, 32, 1}, kPrefillI32{kDLInt, 32, 1};

class PrefillOperator final : public Operator {
 public:
  const char* name() const override { return "prefill_attention"; }
  const char* kernel() const override { return "prefill_attention"; }
  size_t tensor_count() const override { return MOETUNE_PREFILL_V_SCALE + 1; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& q = tensor(given, MOETUNE_PREFILL_Q, "q");
    if (q.ndim != 3)
      refuse("q has " + std::to_string(q.ndim) + " dimensions; it must be [tokens, heads, head_dim]");
    check_kv(given);
    const int64_t heads = q.shape[1], kv_heads = kv_heads_of(given);
    if (kv_heads < 1 || heads % kv_heads != 0)
      refuse("q has " + std::to_string(heads) + " heads, no multiple of k's " + std::to_string(kv_heads) +
             " (layout=" + (given.integers[kPrefillHeadsFirst] != 0 ? "HND" : "NHD") + ")");
    type_name(number_of(q.dtype));
    check_scales(given);
    check_shapes(given);
    check_options(given);
    const auto has = [&](int slot) { return int64_t{given.tensors[slot] != nullptr}; };
    FamilyKey key{.of = this, .device = q.device.device_id};
    key.set(PrefillFacts{
        .group = heads / kv_heads,
        .head_dim = q.shape[2],
        .causal = given.integers[kPrefillCausal],
        .page = is_paged(given) ? tokens_of_block(given) : 0,
        .window = given.integers[kPrefillWindow],
        .dtype = number_of(q.dtype),
        .kv_dtype = number_of(given.tensors[MOETUNE_PREFILL_K]->dtype),
        .heads_first = given.integers[kPrefillHeadsFirst],
        .lse = has(MOETUNE_PREFILL_LSE),
        .sinks = has(MOETUNE_PREFILL_SINKS),
        .head_scales = int64_t{has_head_scales(given)},
    });
    return key;
  }

  std::string specialization(const FamilyKey& key) const override {
    const auto facts = key.as<PrefillFacts>();
    return "group=" + std::to_string(facts.group) + "," + but_group(facts);
  }

  std::string problem(const Given& given, const FamilyKey& key) const override {
    const auto facts = key.as<PrefillFacts>();
    const FreeExtents now = extents(given);
    return "batch=" + std::to_string(now.values[0]) +
           ",q_heads=" + std::to_string(now.values[1] * facts.group) +
           ",kv_heads=" + std::to_string(now.values[1]) + ",seqlen_q=" + std::to_string(now.values[2]) +
           ",seqlen_kv=" + std::to_string(now.values[3]) + "," + but_group(facts);
  }

  FreeExtents extents(const Given& given) const override {
    const DLTensor* table = given.tensors[MOETUNE_PREFILL_PAGE_TABLE];
    const int64_t columns = table != nullptr && table->ndim == 2 ? table->shape[1] : 1;
    return stated(given, {{given.tensors[MOETUNE_PREFILL_Q_OFFSETS]->shape[0] - 1, kv_heads_of(given),
                           given.tensors[MOETUNE_PREFILL_Q]->shape[0], tokens_of_block(given) * columns},
                          4});
  }

  TensorShapes outputs(const Given& given, const FamilyKey&) const override {
    const DLTensor& q = *given.tensors[MOETUNE_PREFILL_Q];
    TensorShapes made;
    made.add({MOETUNE_PREFILL_O, "out", q.dtype, 3, {q.shape[0], q.shape[1], q.shape[2]}});
    return made;
  }

  bool is_idle(const Given& given) const override { return given.tensors[MOETUNE_PREFILL_Q]->shape[0] == 0; }

  const char* bind_options(const Given& given) const override {
    return given.integers[kPrefillHeadsFirst] != 0 ? "layout=heads_first" : "layout=tokens_first";
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_PREFILL_SCALE] = given.scale;
  }

  moetune_choice choose(const Given& given, moetune_family* family, const FreeExtents& room) const override {
    const FreeExtents most = stated(given, room);
    const int64_t begin = given.integers[kPrefillMinKv], last = most.values[3];
    if (most.values[2] > room.values[2])
      refuse("max_q is " + std::to_string(most.values[2]) + "; q has " + std::to_string(room.values[2]) +
             " tokens");
    if (last > room.values[3])
      refuse("max_kv is " + std::to_string(last) + "; page_table, k and v have room for " +
             std::to_string(room.values[3]));
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
  // The extents with max_q and max_kv for what tensors have room for. Tokens include the new ones.
  static FreeExtents stated(const Given& given, FreeExtents room) {
    if (given.integers[kPrefillMaxQ] > 0) room.values[2] = given.integers[kPrefillMaxQ];
    if (given.integers[kPrefillMaxKv] > 0) room.values[3] = given.integers[kPrefillMaxKv];
    room.values[3] = std::max(room.values[2], room.values[3]);
    return room;
  }

  static bool is_paged(const Given& given) { return given.tensors[MOETUNE_PREFILL_PAGE_TABLE] != nullptr; }
  static int64_t kv_size(const Given& given, int from_last) {
    const DLTensor& k = *given.tensors[MOETUNE_PREFILL_K];
    return k.shape[k.ndim - from_last];
  }
  static int64_t kv_heads_of(const Given& given) {
    return kv_size(given, given.integers[kPrefillHeadsFirst] != 0 ? 3 : 2);
  }
  // Of a page, or of all of k if there are no pages.
  static int64_t tokens_of_block(const Given& given) {
    return kv_size(given, given.integers[kPrefillHeadsFirst] != 0 ? 2 : 3);
  }

  static bool is_narrow(const Given& given) {
    return number_of(given.tensors[MOETUNE_PREFILL_K]->dtype) == number_of(kPrefillE4m3);
  }
  static bool has_head_scales(const Given& given) {
    const DLTensor* scale = given.tensors[MOETUNE_PREFILL_K_SCALE];
    return scale != nullptr && scale->ndim == 1 && scale->shape[0] > 1;
  }

  // Throws for a scale that no kernel would read.
  void check_scales(const Given& given) const {
    if (is_narrow(given)) return;
    for (const auto& [slot, name] :
         {std::pair{MOETUNE_PREFILL_K_SCALE, "k_scale"}, {MOETUNE_PREFILL_V_SCALE, "v_scale"}}) {
      if (given.tensors[slot] != nullptr)
        refuse(std::string("'") + name + "' is for k and v in e4m3; these are in another type");
    }
  }

  void check_kv(const Given& given) const {
    const DLTensor& k = tensor(given, MOETUNE_PREFILL_K, "k");
    const bool lengths = given.tensors[MOETUNE_PREFILL_KV_LENGTHS] != nullptr;
    if (is_paged(given) != lengths ||
        is_paged(given) == (given.tensors[MOETUNE_PREFILL_KV_OFFSETS] != nullptr))
      refuse("paged k and v need page_table and seq_lens, others kv_offsets alone");
    if (is_paged(given) && k.ndim != 4)
      refuse("k has " + std::to_string(k.ndim) +
             " dimensions; with page_table it must be [pages, page, kv_heads, head_dim] (NHD) or [pages, "
             "kv_heads, page, head_dim] (HND)");
    if (!is_paged(given) && k.ndim != 3)
      refuse("k has " + std::to_string(k.ndim) +
             " dimensions; without page_table it must be [tokens, kv_heads, head_dim] (NHD) or [kv_heads, "
             "tokens, head_dim] (HND)");
  }

  // Throws if a tensor has as many elements as the kernel reads or writes, but in another shape.
  void check_shapes(const Given& given) const {
    const DLTensor &q = *given.tensors[MOETUNE_PREFILL_Q],
                   &offsets = tensor(given, MOETUNE_PREFILL_Q_OFFSETS, "q_offsets");
    if (offsets.ndim != 1 || offsets.shape[0] < 1) refuse("q_offsets must be [batch + 1]");
    const int64_t batch = offsets.shape[0] - 1;
    for (const TensorShape& input :
         {TensorShape{MOETUNE_PREFILL_KV_OFFSETS, "kv_offsets", kPrefillI32, 1, {batch + 1}},
          TensorShape{MOETUNE_PREFILL_KV_LENGTHS, "seq_lens", kPrefillI32, 1, {batch}},
          TensorShape{MOETUNE_PREFILL_SINKS, "sinks", kPrefillF32, 1, {q.shape[1]}},
          TensorShape{MOETUNE_PREFILL_LSE, "lse", kPrefillF32, 2, {q.shape[0], q.shape[1]}}}) {
      if (given.tensors[input.slot] != nullptr) require(given, input);
    }
  }

  void check_options(const Given& given) const {
    for (const auto& [integer, name] :
         {std::pair{kPrefillMaxQ, "max_q"}, {kPrefillMaxKv, "max_kv"}, {kPrefillMinKv, "min_kv"}}) {
      if (given.integers[integer] < 0)
        refuse(std::string(name) + " is " + std::to_string(given.integers[integer]) +
               "; it must be 0 or more");
    }
    if (given.integers[kPrefillWindow] != 0 && given.integers[kPrefillCausal] == 0)
      refuse("window is " + std::to_string(given.integers[kPrefillWindow]) + "; it needs causal=True");
  }

  // Throws for a type that no family takes.
  const char* type_name(int64_t type) const {
    if (type == number_of({kDLBfloat, 16, 1})) return "bf16";
    if (type == number_of({kDLFloat, 16, 1})) return "fp16";
    refuse("q must be bf16 or fp16");
  }

  std::string but_group(const PrefillFacts& facts) const {
    std::string text = "head_dim=" + std::to_string(facts.head_dim) + ",page=" + std::to_string(facts.page) +
                       ",dtype=" + type_name(facts.dtype);
    if (facts.kv_dtype == number_of(kPrefillE4m3)) text += ",kv_dtype=e4m3";
    if (facts.causal == 0) text += ",causal=0";
    if (facts.window != 0) text += ",window=" + std::to_string(facts.window);
    if (facts.lse != 0) text += ",lse=natural";
    if (facts.sinks != 0) text += ",sinks=learned";
    if (facts.head_scales != 0) text += ",kv_scale=head";
    return text;
  }
};

}  // namespace

const Operator& prefill_operator() {
  static const PrefillOperator made;
  return made;
}

}  // namespace moetune::python
