#include "attention_operator.h"

#include <algorithm>

#include "operators.h"

namespace moetune::python {
namespace {

constexpr int64_t kMostRoom = int64_t{1} << 30;  // tokens of a sequence: kernels/attention/call.h
constexpr double kLeastScale = 0x1p-100;         // likewise
constexpr int64_t kMostSoftcap = 100;            // likewise

struct AttentionFacts {
  int64_t group, head_dim, causal, page, window, softcap, q_len, dtype, q_dtype, kv_dtype, heads_first, lse, sinks,
      head_scales;
};

std::string but_group(const AttentionFacts& facts) {
  std::string text = "head_dim=" + std::to_string(facts.head_dim) + ",page=" + std::to_string(facts.page) +
                     ",dtype=" + (facts.dtype == number_of(kBf16) ? "bf16" : "fp16");
  if (facts.kv_dtype != facts.dtype) text += ",kv_dtype=e4m3";
  if (facts.causal == 0) text += ",causal=0";
  if (facts.window != 0) text += ",window=" + std::to_string(facts.window);
  if (facts.q_len != 1) text += ",q_len=" + std::to_string(facts.q_len);
  if (facts.lse != 0) text += ",lse=natural";
  if (facts.sinks != 0) text += ",sinks=learned";
  if (facts.head_scales != 0) text += ",kv_scale=head";
  if (facts.q_dtype != facts.dtype) text += ",q_dtype=e4m3";
  if (facts.softcap != 0) text += ",softcap=" + std::to_string(facts.softcap);
  return text;
}

TensorShape shape_like(const DLTensor& like, int slot, const char* name, int rank) {
  TensorShape shape{slot, name, like.dtype, rank, {}, true};
  std::copy_n(like.shape, rank, shape.sizes.begin());
  return shape;
}

}  // namespace

FamilyKey AttentionOperator::family_key(const Given& given, int64_t causal, int64_t q_len) const {
  const DLTensor& q = *given.tensors[slots_.q];
  FamilyKey key{.of = this, .device = q.device.device_id};
  key.set(AttentionFacts{
      .group = q.shape[q.ndim - 2] / kv_heads(given),
      .head_dim = q.shape[q.ndim - 1],
      .causal = causal,
      .page = is_paged(given) ? tokens_of_block(given) : 0,
      .window = given.integers[kWindow],
      .softcap = given.integers[kSoftcap],
      .q_len = q_len,
      .dtype = number_of(output_type(given)),
      .q_dtype = number_of(q.dtype),
      .kv_dtype = number_of(given.tensors[slots_.k]->dtype),
      .heads_first = int64_t{is_heads_first(given)},
      .lse = int64_t{has(given, slots_.lse)},
      .sinks = int64_t{has(given, slots_.sinks)},
      .head_scales = int64_t{has_head_scales(given)},
  });
  return key;
}

std::string AttentionOperator::specialization(const FamilyKey& key) const {
  const auto facts = key.as<AttentionFacts>();
  return "group=" + std::to_string(facts.group) + "," + but_group(facts);
}

std::string AttentionOperator::problem(const Given& given, const FamilyKey& key) const {
  const auto facts = key.as<AttentionFacts>();
  const FreeExtents now = extents(given);
  std::string text = "batch=" + std::to_string(now.values[0]) +
                     ",q_heads=" + std::to_string(now.values[1] * facts.group) +
                     ",kv_heads=" + std::to_string(now.values[1]);
  for (size_t i = 0; i < slots_.lengths.size(); ++i)
    text += std::string(",") + slots_.lengths[i] + "=" + std::to_string(now.values[i + 2]);
  return text + "," + but_group(facts);
}

TensorShapes AttentionOperator::outputs(const Given& given, const FamilyKey&) const {
  const DLTensor& q = *given.tensors[slots_.q];
  TensorShapes made;
  TensorShape out = shape_like(q, slots_.out, "out", q.ndim);
  out.type = output_type(given);
  made.add(out);
  return made;
}

void AttentionOperator::check_attention(const Given& given, int64_t batch) const {
  check_heads(given);
  check_kv(given);
  check_scales(given);
  if (is_paged(given)) check_pages(given, batch);
  check_outputs(given);
  if (given.integers[kSoftcap] < 0 || given.integers[kSoftcap] > kMostSoftcap)
    refuse("softcap is " + std::to_string(given.integers[kSoftcap]) + "; it must be from 0 (none) to " +
           std::to_string(kMostSoftcap));
  if (!(given.scale >= kLeastScale && given.scale <= 1 / kLeastScale))
    refuse("scale is " + std::to_string(given.scale) + "; it must be positive, from 2^-100 to 2^100");
}

void AttentionOperator::check_heads(const Given& given) const {
  const DLTensor& q = *given.tensors[slots_.q];
  const int64_t type = number_of(q.dtype), heads = q.shape[q.ndim - 2], groups = kv_heads(given);
  const bool narrow = has_narrow_queries(given) && slots_.q_scale >= 0;
  if (type != number_of(kBf16) && type != number_of(kF16) && !narrow)
    refuse("'q' is " + type_text(q.dtype) + "; it must be bf16 or fp16" +
           (slots_.q_scale >= 0 ? ", or e4m3 like 'k'" : ""));
  require_side_by_side(q, "q");
  if (groups < 1 || heads % groups != 0)
    refuse("'q' has " + std::to_string(heads) + " heads, no multiple of the " + std::to_string(groups) + " of '" +
           slots_.k_name + "' (layout=" + (is_heads_first(given) ? "HND" : "NHD") + ")");
  if (has(given, slots_.sinks)) require(given, {slots_.sinks, "sinks", kF32, 1, {heads}});
}

void AttentionOperator::check_kv(const Given& given) const {
  const DLTensor &q = *given.tensors[slots_.q], &k = *given.tensors[slots_.k];
  if (number_of(k.dtype) != number_of(q.dtype) && !is_narrow(given))
    refuse(std::string("'") + slots_.k_name + "' is " + type_text(k.dtype) + "; it must be " + type_text(q.dtype) +
           " like 'q'" + (has_narrow_queries(given) ? "" : ", or e4m3"));
  if (k.shape[k.ndim - 1] != q.shape[q.ndim - 1])
    refuse(std::string("'") + slots_.k_name + "' has heads of " + std::to_string(k.shape[k.ndim - 1]) +
           " elements; those of 'q' have " + std::to_string(q.shape[q.ndim - 1]));
  require_side_by_side(k, slots_.k_name);
  require(given, shape_like(k, slots_.v, slots_.v_name, k.ndim));
}

void AttentionOperator::check_room(const Given& given) const {
  const int64_t tokens = given.tensors[slots_.k]->shape[0] > 0 ? room(given) : 0;
  const std::string where = std::string("'") + slots_.k_name + "'" + (is_paged(given) ? " with 'page_table'" : "");
  if (tokens < 1) refuse(where + " has room for no token");
  if (tokens > kMostRoom)
    refuse(where + " has room for sequences of " + std::to_string(tokens) + " tokens; at most 2^30 are possible");
}

void AttentionOperator::check_scale(const Given& given, int slot, const char* name) const {
  const DLTensor& scale = tensor(given, slot, name);
  require_type(scale, name, kF32);
  if (has_head_scales(given))
    require(given, {slot, name, kF32, 1, {kv_heads(given)}});
  else if (std::any_of(scale.shape, scale.shape + scale.ndim, [](int64_t size) { return size != 1; }))
    refuse(std::string("'") + name + "' must have one element, or one for each of the " +
           std::to_string(kv_heads(given)) + " KV heads as all scales");
}

// Other types than e4m3 have no scales.
void AttentionOperator::check_scales(const Given& given) const {
  for (const auto& [slot, name] : {std::pair{slots_.k_scale, "k_scale"}, {slots_.v_scale, "v_scale"}}) {
    if (is_narrow(given)) {
      check_scale(given, slot, name);
    } else if (has(given, slot)) {
      refuse(std::string("'") + name + "' is for keys and values in e4m3; '" + slots_.k_name + "' is " +
             type_text(given.tensors[slots_.k]->dtype));
    }
  }
  if (slots_.q_scale < 0) return;
  if (has_narrow_queries(given)) {
    check_scale(given, slots_.q_scale, "q_scale");
  } else if (has(given, slots_.q_scale)) {
    refuse("'q_scale' is for queries in e4m3; 'q' is " + type_text(given.tensors[slots_.q]->dtype));
  }
}

void AttentionOperator::check_pages(const Given& given, int64_t batch) const {
  const DLTensor& table = *given.tensors[slots_.page_table];
  if (table.ndim != 2)
    refuse("'page_table' has " + std::to_string(table.ndim) + " dimensions; it must be [batch, columns]");
  require(given, {slots_.page_table, "page_table", kI32, 2, {batch, table.shape[1]}, true});
}

void AttentionOperator::check_outputs(const Given& given) const {
  const DLTensor& q = *given.tensors[slots_.q];
  if (has(given, slots_.out)) {
    TensorShape out = shape_like(q, slots_.out, "out", q.ndim);
    out.type = output_type(given);
    if (number_of(out.type) == number_of(kE4m3)) refuse("'out' is e4m3; it must be bf16 or fp16");
    require(given, out);
  }
  if (!has(given, slots_.lse)) return;
  TensorShape lse = shape_like(q, slots_.lse, "lse", q.ndim - 1);
  lse.type = kF32;
  lse.is_sliced = false;
  require(given, lse);
}

}  // namespace moetune::python
