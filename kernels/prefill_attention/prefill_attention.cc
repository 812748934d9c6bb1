// prefill_attention: the new tokens of every sequence against its KV, new and cached, and how a server calls it.
// Problem, call, inputs and plan have files of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/attention/options.h"
#include "kernels/family_interface.h"
#include "kernels/kernel.h"
#include "kernels/prefill_attention/call.h"
#include "kernels/prefill_attention/inputs.h"
#include "kernels/prefill_attention/plan.h"
#include "kernels/prefill_attention/problem.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

constexpr CallRules kPrefillBinding("prefill_attention");

// The order is part of the C interface (include/moetune_kernels.h).
enum PrefillSlot {
  kPrefillQ,
  kPrefillK,
  kPrefillV,
  kPrefillQOffsets,
  kPrefillKvOffsets,
  kPrefillKvLengths,
  kPrefillPageTable,
  kPrefillO,
  kPrefillLse,
  kPrefillSinks,
  kPrefillKScale,
  kPrefillVScale,
  kPrefillQScale,
  kPrefillSlots
};

class PrefillFamily final : public FamilyInterface {
 public:
  explicit PrefillFamily(const PrefillShape& shape)
      : shape_(shape),
        slots_{{{"q", shape.q_dtype(), Role::input, true, 16},
                {"k", shape.kv_dtype(), Role::input, true, 16},
                {"v", shape.kv_dtype(), Role::input, true, 16},
                {"q_offsets", DType::i32, Role::input, true, 4},
                {"kv_offsets", DType::i32, Role::input, !shape.paged(), 4},
                {"kv_lengths", DType::i32, Role::input, shape.paged(), 4},
                {"page_table", DType::i32, Role::input, shape.paged(), 4},
                {"o", shape.dtype, Role::output, true, 16},
                {"lse", DType::f32, Role::output, shape.lse, 4},
                {"sinks", DType::f32, Role::input, shape.sinks, 4},
                {"k_scale", DType::f32, Role::input, shape.narrow, 4},
                {"v_scale", DType::f32, Role::input, shape.narrow, 4},
                {"q_scale", DType::f32, Role::input, shape.narrow_queries, 4}}} {}

  std::span<const TensorSlot> tensors() const override { return slots_; }

  void check(const Extents& extents) const override { check_prefill_extents(extents, shape_.group()); }

  void check_call(const Extents& extents, const Call& call) const override {
    check_prefill_attention_call(shape_.at(extents), PrefillCall(call));
  }

  // Sequences times KV heads, which only multiply the work (one table serves every tensor-parallel degree of a
  // model), new tokens of a sequence, and its tokens: 64 sequences of 16 new tokens want something else than one of
  // 1024. A batch counts as even if its new tokens fill nine tenths of what the longest would. An unknown total counts
  // as half of the most.
  TablePoint table_point(const Extents& extents, std::int64_t total) const override {
    TablePoint point;
    const std::int64_t most = extents[0] * extents[2], known = total > 0 ? total : most / 2;
    point.position = {extents[0] * extents[1], extents[2], extents[3]};
    point.ragged = extents[0] > 1 && known < most - most / 10;
    return point;
  }

  bool has_ragged() const override { return true; }
  void make_ragged(Problem& problem) const override { problem.dims.set("lengths", Value::named("ragged", 1)); }

  TablePoint table_point_of(const Problem& problem) const override {
    const PrefillShape shape(problem);
    return table_point({shape.batch, shape.kv_heads, shape.seqlen_q, shape.seqlen_kv}, PrefillTotals(shape).new_tokens);
  }

  // With as many KV heads as `like` has. New tokens count among a sequence's tokens.
  Extents extents_at(const TablePoint& point, const Extents& like) const override {
    const std::int64_t heads = std::min(like[1], point.position[0]);
    return {ceil_div(point.position[0], heads), heads, point.position[1],
            std::max(point.position[1], point.position[2])};
  }

  std::optional<Multiple> multiple() const override { return Multiple{"q_heads", "kv_heads", shape_.group()}; }
  std::vector<std::string> varying_dimensions() const override { return {"batch", "seqlen_q", "seqlen_kv", "lengths"}; }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override;

 private:
  const TensorView& tensor(std::span<const TensorView* const> tensors, PrefillSlot slot, std::size_t rank,
                           const char* shape) const;
  void require_size(PrefillSlot slot, const char* what, std::int64_t size, std::int64_t wanted) const;
  TokenStrides rows(PrefillSlot slot, const TensorView& view, std::int64_t heads) const;
  KvStrides keys(PrefillSlot slot, const TensorView& view, bool heads_first) const;
  void bind_pages(std::span<const TensorView* const> tensors, std::int64_t batch, PrefillCall& call) const;

  PrefillShape shape_;
  std::array<TensorSlot, kPrefillSlots> slots_;
};

const TensorView& PrefillFamily::tensor(std::span<const TensorView* const> tensors, PrefillSlot slot, std::size_t rank,
                                        const char* shape) const {
  const TensorView& view = require_tensor(slots_, tensors, slot);
  if (view.shape.size() == rank) return view;
  kPrefillBinding.refuse("tensor '" + slots_[slot].name.text() + "' has " + std::to_string(view.shape.size()) +
                         " dimensions; it must be " + shape);
}

void PrefillFamily::require_size(PrefillSlot slot, const char* what, std::int64_t size, std::int64_t wanted) const {
  if (size == wanted) return;
  kPrefillBinding.refuse("tensor '" + slots_[slot].name.text() + "' has " + std::to_string(size) + " " + what +
                         "; it must have " + std::to_string(wanted));
}

TokenStrides PrefillFamily::rows(PrefillSlot slot, const TensorView& view, std::int64_t heads) const {
  require_size(slot, "heads", view.shape[1], heads);
  require_size(slot, "elements a head", view.shape[2], shape_.head_dim);
  if (view.strides[2] != 1)
    kPrefillBinding.refuse("the elements of a head of '" + slots_[slot].name.text() + "' must lie side by side");
  // A dimension of size one has no stride that matters; a tensor may state any.
  const std::int64_t head = heads > 1 ? view.strides[1] : shape_.head_dim;
  return {view.shape[0] > 1 ? view.strides[0] : heads * head, head};
}

// [tokens, heads, dim] or [heads, tokens, dim], behind a dimension of pages if there are any.
KvStrides PrefillFamily::keys(PrefillSlot slot, const TensorView& view, bool heads_first) const {
  const std::size_t first = shape_.paged() ? 1 : 0, last = first + 2;
  const std::size_t head = heads_first ? first : first + 1, token = heads_first ? first + 1 : first;
  if (view.strides[last] != 1)
    kPrefillBinding.refuse("the elements of a head of '" + slots_[slot].name.text() + "' must lie side by side");
  require_size(slot, "elements a head", view.shape[last], shape_.head_dim);
  const std::int64_t heads = view.shape[head], tokens = view.shape[token];
  const std::int64_t dense = heads * tokens * shape_.head_dim;
  KvStrides strides{shape_.paged() ? view.strides[0] : dense, view.strides[head], view.strides[token]};
  if (heads == 1) strides.head = shape_.head_dim;
  if (tokens == 1) strides.token = heads * shape_.head_dim;
  if (shape_.paged() && view.shape[0] == 1) strides.block = dense;
  return strides;
}

void PrefillFamily::bind_pages(std::span<const TensorView* const> tensors, std::int64_t batch,
                               PrefillCall& call) const {
  require_contiguous(slots_[kPrefillKvLengths], require_tensor(slots_, tensors, kPrefillKvLengths), batch);
  const TensorView& table = tensor(tensors, kPrefillPageTable, 2, "[batch, columns]");
  require_size(kPrefillPageTable, "rows", table.shape[0], batch);
  if (table.shape[1] > 1 && table.strides[1] != 1)
    kPrefillBinding.refuse("the entries of a row of 'page_table' must lie side by side");
  call.page_table_stride = batch > 1 ? table.strides[0] : table.shape[1];
  call.capacity = table.shape[1] * shape_.page;
}

void PrefillFamily::bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
                         Call& call) const {
  const AttentionOptions read = read_attention_options(
      kPrefillBinding, options, {shape_.heads_first, 1 / std::sqrt(static_cast<double>(shape_.head_dim))});
  const bool first = read.heads_first;
  const char* const layout = shape_.paged() ? (first ? "[pages, kv_heads, page, head_dim] (layout=heads_first)"
                                                     : "[pages, page, kv_heads, head_dim] (layout=tokens_first)")
                                            : (first ? "[kv_heads, tokens, head_dim] (layout=heads_first)"
                                                     : "[tokens, kv_heads, head_dim] (layout=tokens_first)");
  const std::size_t rank = shape_.paged() ? 4 : 3;
  const TensorView& q = tensor(tensors, kPrefillQ, 3, "[tokens, heads, head_dim]");
  const TensorView& o = tensor(tensors, kPrefillO, 3, "[tokens, heads, head_dim]");
  const TensorView& k = tensor(tensors, kPrefillK, rank, layout);
  const TensorView& v = tensor(tensors, kPrefillV, rank, layout);
  if (!(k.shape == v.shape))
    kPrefillBinding.refuse("tensors 'k' and 'v' differ in shape: " + shape_text(k) + " and " + shape_text(v));
  const std::int64_t tokens = k.shape[rank - (first ? 2 : 3)], heads = k.shape[rank - (first ? 3 : 2)];
  const TensorView& offsets = tensor(tensors, kPrefillQOffsets, 1, "[batch + 1]");
  if (offsets.shape[0] < 1) kPrefillBinding.refuse("tensor 'q_offsets' is empty; it must be [batch + 1]");
  const std::int64_t batch = offsets.shape[0] - 1;
  require_contiguous(slots_[kPrefillQOffsets], offsets, batch + 1);

  PrefillCall made{Call{}};
  made.q = rows(kPrefillQ, q, heads * shape_.group());
  made.o = rows(kPrefillO, o, heads * shape_.group());
  require_size(kPrefillO, "tokens", o.shape[0], q.shape[0]);
  made.k = keys(kPrefillK, k, first);
  made.v = keys(kPrefillV, v, first);
  made.q_tokens = q.shape[0];
  made.blocks = shape_.paged() ? k.shape[0] : 1;
  made.capacity = tokens;
  made.scale = read.scale;
  if (shape_.paged()) {
    require_size(kPrefillK, "tokens a page", tokens, shape_.page);
    bind_pages(tensors, batch, made);
  } else {
    require_contiguous(slots_[kPrefillKvOffsets], require_tensor(slots_, tensors, kPrefillKvOffsets), batch + 1);
  }
  if (shape_.lse)
    require_contiguous(slots_[kPrefillLse], require_tensor(slots_, tensors, kPrefillLse),
                       q.shape[0] * heads * shape_.group());
  if (shape_.sinks)
    require_contiguous(slots_[kPrefillSinks], require_tensor(slots_, tensors, kPrefillSinks), heads * shape_.group());
  for (const PrefillSlot slot : {kPrefillKScale, kPrefillVScale, kPrefillQScale}) {
    if (slot == kPrefillQScale ? shape_.narrow_queries : shape_.narrow)
      require_contiguous(slots_[slot], require_tensor(slots_, tensors, slot), shape_.head_scales ? heads : 1);
  }
  // One sequence may have all of them.
  const std::int64_t new_tokens = std::min(q.shape[0], kMostNewTokens);
  extents = {batch, heads, new_tokens, std::max(new_tokens, std::min(made.capacity, kMostKvTokens))};
  call = made.call();
}

class PrefillAttention final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return prefill_attention_schema(); }
  const std::vector<Preset>& presets() const override { return prefill_attention_presets(); }
  void check(const Problem& problem) const override { check_prefill_attention(problem); }

  Assignment specialization(const Problem& problem) const override { return PrefillShape(problem).specialization(); }

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"batch", "kv_heads", "seqlen_q", "seqlen_kv"};
    return names;
  }
  std::vector<std::string> free_lengths() const override { return {"seqlen_q", "seqlen_kv"}; }

  Problem problem_of(const Assignment& specialization, const Extents& extents) const override {
    return prefill_attention_problem_of(specialization, extents);
  }

  const CallSchema& call_schema() const override { return prefill_attention_call_schema(); }

  Call default_call(const Problem& problem) const override { return PrefillCall(PrefillShape(problem)).call(); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_prefill_attention_call(PrefillShape(problem), PrefillCall(call));
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<PrefillFamily>(PrefillShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    return prefill_attention_buffers(PrefillShape(problem), PrefillCall(call), seed);
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return prefill_attention_launcher(config, PrefillShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return prefill_attention_reference_plan(which, PrefillShape(problem), PrefillCall(call));
  }

  Cost cost(const Problem& problem) const override { return prefill_attention_cost(PrefillShape(problem)); }

 private:
  const std::string name_ = "prefill_attention";
  const std::string summary_ =
      "attention of new tokens over their sequences' KV (causal, GQA, chunked, paged, ragged, windows, sinks)";
};

}  // namespace

const Kernel& prefill_attention() {
  static const PrefillAttention kernel;
  return kernel;
}

}  // namespace moetune
