#include "decode_operator.h"

namespace moetune::python {
namespace {

struct DecodeFacts {
  int64_t group, head_dim, page, window, q_len, dtype, kv_dtype, heads_first, lse, sinks, head_scales;
};

constexpr DLDataType kBf16{kDLBfloat, 16, 1}, kFp16{kDLFloat, 16, 1}, kE4m3{kDLFloat8_e4m3fn, 8, 1},
    kF32{kDLFloat, 32, 1}, kI32{kDLInt, 32, 1};

class DecodeOperator final : public Operator {
 public:
  const char* name() const override { return "decode_attention"; }
  const char* kernel() const override { return "decode_attention"; }
  size_t tensor_count() const override { return MOETUNE_DECODE_V_SCALE + 1; }

  FamilyKey key(const Given& given) const override {
    const DLTensor& q = tensor(given, MOETUNE_DECODE_Q, "q");
    const DLTensor& k = tensor(given, MOETUNE_DECODE_K, "k_cache");
    if (q.ndim != 3 && q.ndim != 4)
      refuse("q has " + std::to_string(q.ndim) +
             " dimensions; it must be [batch, heads, head_dim] or [batch, q_len, heads, head_dim]");
    if (k.ndim != 4)
      refuse("k_cache has " + std::to_string(k.ndim) +
             " dimensions; it must be [pages, page, kv_heads, head_dim] (NHD) or [pages, kv_heads, page, "
             "head_dim] (HND)");
    const int64_t heads = q.shape[q.ndim - 2], kv_heads = kv_heads_of(given);
    if (kv_heads < 1 || heads % kv_heads != 0)
      refuse("q has " + std::to_string(heads) + " heads, no multiple of the cache's " +
             std::to_string(kv_heads) + " (layout=" + (given.integers[kHeadsFirst] != 0 ? "HND" : "NHD") +
             ")");
    type_name(number_of(q.dtype), "q");
    const auto has = [&](int slot) { return int64_t{given.tensors[slot] != nullptr}; };
    check_scales(given);
    check_shapes(given);
    if (given.integers[kMaxContext] < 0)
      refuse("max_context is " + std::to_string(given.integers[kMaxContext]) + "; it must be 0 or more");
    FamilyKey key{.of = this, .device = q.device.device_id};
    key.set(DecodeFacts{
        .group = heads / kv_heads,
        .head_dim = q.shape[q.ndim - 1],
        .page = has(MOETUNE_DECODE_PAGE_TABLE) ? tokens_of_block(given) : 0,
        .window = given.integers[kWindow],
        .q_len = q.ndim == 4 ? q.shape[1] : 1,
        .dtype = number_of(q.dtype),
        .kv_dtype = number_of(k.dtype),
        .heads_first = given.integers[kHeadsFirst],
        .lse = has(MOETUNE_DECODE_LSE),
        .sinks = has(MOETUNE_DECODE_SINKS),
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
    const DLTensor* table = given.tensors[MOETUNE_DECODE_PAGE_TABLE];
    const int64_t columns = table != nullptr && table->ndim == 2 ? table->shape[1] : 1,
                  stated = given.integers[kMaxContext];
    return {{given.tensors[MOETUNE_DECODE_Q]->shape[0], kv_heads_of(given),
             stated > 0 ? stated : tokens_of_block(given) * columns},
            3};
  }

  TensorShapes outputs(const Given& given, const FamilyKey&) const override {
    const DLTensor& q = *given.tensors[MOETUNE_DECODE_Q];
    TensorShape out{MOETUNE_DECODE_O, "out", q.dtype, q.ndim, {}};
    std::copy_n(q.shape, q.ndim, out.sizes.begin());
    TensorShapes made;
    made.add(out);
    return made;
  }

  const char* bind_options(const Given& given) const override {
    return given.integers[kHeadsFirst] != 0 ? "layout=heads_first" : "layout=tokens_first";
  }

  void complete(const Given& given, moetune_arguments& arguments) const override {
    arguments.reals[MOETUNE_DECODE_SCALE] = given.scale;
  }

  moetune_choice choose(const Given& given, moetune_family* family, const FreeExtents& most) const override {
    const int64_t stated = given.integers[kMaxContext], begin = given.integers[kMinContext],
                  room = most.values[2], last = stated > 0 ? stated : room;
    if (stated > room)
      refuse("max_context is " + std::to_string(stated) + "; page_table and cache have room for " +
             std::to_string(room));
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
  static bool has_head_scales(const Given& given) {
    const DLTensor* scale = given.tensors[MOETUNE_DECODE_K_SCALE];
    return scale != nullptr && scale->ndim == 1 && scale->shape[0] > 1;
  }

  // Throws for a scale that no kernel would read, because the cache is not in e4m3.
  void check_scales(const Given& given) const {
    const int64_t type = number_of(given.tensors[MOETUNE_DECODE_K]->dtype);
    if (type == number_of(kE4m3)) return;
    for (const auto& [slot, name] :
         {std::pair{MOETUNE_DECODE_K_SCALE, "k_scale"}, {MOETUNE_DECODE_V_SCALE, "v_scale"}}) {
      if (given.tensors[slot] != nullptr)
        refuse(std::string("'") + name + "' is for a cache in e4m3; this one is in " +
               type_name(type, "the cache") + ", which has no scales");
    }
  }

  // Throws if a tensor has as many elements as the kernel reads or writes, but in another shape.
  void check_shapes(const Given& given) const {
    const DLTensor& q = *given.tensors[MOETUNE_DECODE_Q];
    const int64_t heads = q.shape[q.ndim - 2];
    require(given, {MOETUNE_DECODE_LENGTHS, "seq_lens", kI32, 1, {q.shape[0]}});
    if (given.tensors[MOETUNE_DECODE_SINKS] != nullptr)
      require(given, {MOETUNE_DECODE_SINKS, "sinks", kF32, 1, {heads}});
    if (given.tensors[MOETUNE_DECODE_LSE] == nullptr) return;
    TensorShape lse{MOETUNE_DECODE_LSE, "lse", kF32, q.ndim - 1, {}};
    std::copy_n(q.shape, q.ndim - 1, lse.sizes.begin());
    require(given, lse);
  }

  static int64_t kv_heads_of(const Given& given) {
    return given.tensors[MOETUNE_DECODE_K]->shape[given.integers[kHeadsFirst] != 0 ? 1 : 2];
  }
  // Of a page, or of a sequence if there are no pages.
  static int64_t tokens_of_block(const Given& given) {
    return given.tensors[MOETUNE_DECODE_K]->shape[given.integers[kHeadsFirst] != 0 ? 2 : 1];
  }

  // Throws for a type that no family takes.
  const char* type_name(int64_t type, const char* what) const {
    if (type == number_of(kBf16)) return "bf16";
    if (type == number_of(kFp16)) return "fp16";
    if (type == number_of(kE4m3)) return "e4m3";
    refuse(std::string(what) + " must be bf16 or fp16, or e4m3 for the cache");
  }

  std::string but_group(const DecodeFacts& facts) const {
    std::string text = "head_dim=" + std::to_string(facts.head_dim) + ",page=" + std::to_string(facts.page) +
                       ",dtype=" + type_name(facts.dtype, "q");
    if (facts.dtype != facts.kv_dtype)
      text += std::string(",kv_dtype=") + type_name(facts.kv_dtype, "the cache");
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
