// decode_attention: the newest tokens of a sequence against its KV cache, and how a server calls it. Problem, call,
// inputs and plan have files of their own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/attention/options.h"
#include "kernels/decode_attention/call.h"
#include "kernels/decode_attention/inputs.h"
#include "kernels/decode_attention/plan.h"
#include "kernels/decode_attention/problem.h"
#include "kernels/family_interface.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum OwnTensor { kQ, kK, kV, kPageTable, kLengths, kO, kLse, kSinks, kKScale, kVScale, kSlots };

[[noreturn]] void refuse_family(const std::string& rule) { throw BadInput("decode_attention: " + rule); }

std::string size_text(std::int64_t size) { return std::to_string(size); }

constexpr std::int64_t kMostHeads = 1024;
constexpr std::int64_t kMostExtents[] = {65535, kMostHeads, std::int64_t{1} << 22};

// 3 if none is.
std::size_t first_out_of_range(const Extents& extents) {
  std::size_t i = 0;
  while (i < 3 && extents[i] >= 1 && extents[i] <= kMostExtents[i]) ++i;
  return i;
}

// A ragged batch's rows (sequences times KV heads) count as no fewer than a quarter of them: all of them take
// blocks and workspace, however short they are.
constexpr std::int64_t kLeastFilled = 4;

// `filled` of `rows` as a position, rounded up to eight steps an octave, so that much the same totals share a cell.
std::int64_t ragged_rows(std::int64_t rows, std::int64_t filled) {
  const std::int64_t counted = std::max(filled, ceil_div(rows, kLeastFilled));
  const int zeros = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(counted))) - 4);
  return std::min(rows, ceil_div(counted, std::int64_t{1} << zeros) << zeros);
}

class DecodeFamily final : public FamilyInterface {
 public:
  explicit DecodeFamily(const DecodeShape& shape) : shape_(shape) {
    const auto set = [&](OwnTensor slot, const char* name, DType type, Role role, bool present,
                         std::int64_t alignment) {
      slots_[slot] = {name, type, role, present, alignment};
    };
    set(kQ, "q", shape.dtype, Role::input, true, 16);
    set(kK, "k", shape.kv_dtype(), Role::input, true, 16);
    set(kV, "v", shape.kv_dtype(), Role::input, true, 16);
    set(kPageTable, "page_table", DType::i32, Role::input, shape.paged(), 4);
    set(kLengths, "lengths", DType::i32, Role::input, true, 4);
    set(kO, "o", shape.dtype, Role::output, true, 16);
    set(kLse, "lse", DType::f32, Role::output, shape.lse, 4);
    set(kSinks, "sinks", DType::f32, Role::input, shape.sinks, 4);
    set(kKScale, "k_scale", DType::f32, Role::input, shape.narrow, 4);
    set(kVScale, "v_scale", DType::f32, Role::input, shape.narrow, 4);
  }

  std::span<const TensorSlot> tensors() const override { return slots_; }

  void check(const Extents& extents) const override {
    static constexpr const char* kNames[] = {"batch", "kv_heads", "context"};
    if (extents.size() != 3) refuse_family("the extents are batch, kv_heads and context");
    const std::size_t i = first_out_of_range(extents);
    if (i == 3) return;
    refuse_family(std::string(kNames[i]) + "=" + std::to_string(extents[i]) + " is out of range (from 1 to " +
                  std::to_string(kMostExtents[i]) + ")");
  }

  void check_call(const Extents& extents, const Call& call) const override {
    check_decode_attention_call(shape_.at(extents), DecodeCall(call));
  }

  // Batch and KV heads only multiply the work: one table serves every tensor-parallel degree of a model. A batch counts
  // as full if its contexts fill nine tenths of what the longest would, or, with a window, of two windows each: most
  // sequences are then longer than what they see, and longer contexts are one place. A ragged batch lies where the
  // full one does that has its total: three sequences of which two are empty are work for one. An unknown total counts
  // as half of the most.
  TablePoint table_point(const Extents& extents, std::int64_t total) const override {
    const std::int64_t rows = extents[0] * extents[1];
    const std::int64_t known = total > 0 ? total : extents[0] * extents[2] / 2;
    const std::int64_t length = told_apart(extents[2]);
    const std::int64_t most = extents[0] * length;
    TablePoint point;
    point.ragged = extents[0] > 1 && known < most - most / 10;
    point.position = {point.ragged ? ragged_rows(rows, (known * extents[1] + length / 2) / length) : rows, length};
    return point;
  }
  TablePoint last_point(const Extents& most) const override {
    TablePoint point;
    point.position = {most[0] * most[1], told_apart(most[2])};
    return point;
  }

  bool has_ragged() const override { return true; }
  void make_ragged(Problem& problem) const override { problem.dims.set("lengths", Value::named("ragged", 1)); }

  TablePoint table_point_of(const Problem& problem) const override {
    const DecodeShape shape(problem);
    const std::vector<std::int64_t> lengths = shape.lengths();
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    return table_point({shape.batch, shape.kv_heads, shape.context}, total);
  }

  Extents extents_at(const TablePoint& point, const Extents& like) const override {
    const std::int64_t rows = point.ragged ? 2 * point.position[0] : point.position[0];
    const std::int64_t heads = std::min(like[1], rows);
    return {ceil_div(rows, heads), heads, point.position[1]};
  }

  // With a window, contexts of two or more are as much work.
  std::int64_t told_apart(std::int64_t context) const {
    return shape_.window == 0 ? context : std::min(context, 2 * shape_.window);
  }

  std::optional<Multiple> multiple() const override { return Multiple{"q_heads", "kv_heads", shape_.group()}; }
  // Few tables reach down to fewer rows than the KV heads of their problems.
  std::vector<std::string> varying_dimensions() const override { return {"batch", "context", "lengths"}; }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override;

 private:
  void require_size(OwnTensor slot, const char* what, std::int64_t size, std::int64_t wanted) const;
  RowStrides rows(OwnTensor slot, const TensorView& view, std::int64_t batch, std::int64_t heads) const;
  KvStrides keys(OwnTensor slot, const TensorView& view, bool heads_first, std::int64_t tokens) const;

  DecodeShape shape_;
  std::array<TensorSlot, kSlots> slots_;
};

void DecodeFamily::require_size(OwnTensor slot, const char* what, std::int64_t size, std::int64_t wanted) const {
  if (size == wanted) return;
  refuse_family("tensor '" + slots_[slot].name.text() + "' has " + size_text(size) + " " + what + "; it must have " +
                size_text(wanted));
}

// [batch, q_len, heads, head_dim], or without q_len if that is 1.
RowStrides DecodeFamily::rows(OwnTensor slot, const TensorView& view, std::int64_t batch, std::int64_t heads) const {
  const std::size_t rank = view.shape.size();
  if (rank != 4 && !(rank == 3 && shape_.q_len == 1)) {
    refuse_family("tensor '" + slots_[slot].name.text() + "' has " + std::to_string(rank) +
                  " dimensions; it must be [batch, q_len, heads, head_dim]");
  }
  require_size(slot, "sequences", view.shape[0], batch);
  if (rank == 4) require_size(slot, "new tokens", view.shape[1], shape_.q_len);
  require_size(slot, "heads", view.shape[rank - 2], heads);
  require_size(slot, "elements a head", view.shape[rank - 1], shape_.head_dim);
  if (view.strides[rank - 1] != 1)
    refuse_family("the elements of a head of '" + slots_[slot].name.text() + "' must lie side by side");
  // A dimension of size one has no stride that matters; a tensor may state any.
  const std::int64_t head = heads > 1 ? view.strides[rank - 2] : shape_.head_dim;
  const std::int64_t token = shape_.q_len > 1 ? view.strides[1] : heads * head;
  return {batch > 1 ? view.strides[0] : shape_.q_len * token, token, head};
}

KvStrides DecodeFamily::keys(OwnTensor slot, const TensorView& view, bool heads_first, std::int64_t tokens) const {
  const std::size_t head = heads_first ? 1 : 2, token = heads_first ? 2 : 1;
  if (view.strides[3] != 1)
    refuse_family("the elements of a head of '" + slots_[slot].name.text() + "' must lie side by side");
  require_size(slot, "elements a head", view.shape[3], shape_.head_dim);
  const std::int64_t heads = view.shape[head];
  KvStrides strides{view.strides[0], view.strides[head], view.strides[token]};
  if (heads == 1) strides.head = shape_.head_dim;
  if (tokens == 1) strides.token = heads * shape_.head_dim;
  if (view.shape[0] == 1) strides.block = tokens * heads * shape_.head_dim;
  return strides;
}

void DecodeFamily::bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
                        Call& call) const {
  const AttentionOptions read =
      read_attention_options(CallRules("decode_attention"), options,
                             {shape_.heads_first, 1 / std::sqrt(static_cast<double>(shape_.head_dim)), false});
  const auto tensor = [&](OwnTensor slot) -> const TensorView& { return require_tensor(slots_, tensors, slot); };
  const auto contiguous = [&](OwnTensor slot, std::int64_t elements) {
    require_contiguous(slots_[slot], tensor(slot), elements);
  };
  const TensorView &q = tensor(kQ), &k = tensor(kK), &v = tensor(kV);
  for (const auto& [slot, view] : {std::pair{kK, &k}, std::pair{kV, &v}}) {
    if (view->shape.size() != 4) {
      refuse_family("tensor '" + slots_[slot].name.text() + "' has " + std::to_string(view->shape.size()) +
                    " dimensions; it must have 4, with layout=" +
                    (read.heads_first ? "heads_first [pages, kv_heads, page, head_dim]"
                                      : "tokens_first [pages, page, kv_heads, head_dim]"));
    }
  }
  if (!(k.shape == v.shape))
    refuse_family("tensors 'k' and 'v' differ in shape: " + shape_text(k) + " and " + shape_text(v));
  const std::int64_t tokens = k.shape[read.heads_first ? 2 : 1], heads = k.shape[read.heads_first ? 1 : 2];
  const std::int64_t batch = q.shape.empty() ? 0 : q.shape[0];
  DecodeCall made{Call{}};
  made.q = rows(kQ, q, batch, heads * shape_.group());
  made.o = rows(kO, tensor(kO), batch, heads * shape_.group());
  made.k = keys(kK, k, read.heads_first, tokens);
  made.v = keys(kV, v, read.heads_first, tokens);
  made.v_offset = 0;
  made.blocks = k.shape[0];
  made.scale = read.scale;
  made.kv_settled = read.kv_settled.value_or(false);
  made.page_table_stride = 0;
  made.capacity = tokens;
  if (shape_.paged()) {
    require_size(kK, "tokens a page", tokens, shape_.page);
    const TensorView& table = tensor(kPageTable);
    if (table.shape.size() != 2)
      refuse_family("tensor 'page_table' must be [batch, columns]; there is no form by indptr");
    require_size(kPageTable, "rows", table.shape[0], batch);
    if (table.shape[1] > 1 && table.strides[1] != 1)
      refuse_family("the entries of a row of 'page_table' must lie side by side");
    made.page_table_stride = batch > 1 ? table.strides[0] : table.shape[1];
    made.capacity = table.shape[1] * shape_.page;
  } else if (k.shape[0] < batch) {
    refuse_family("tensor 'k' has room for " + size_text(k.shape[0]) + " sequences; q has " + size_text(batch));
  }
  contiguous(kLengths, batch);
  if (shape_.lse) contiguous(kLse, batch * shape_.q_len * heads * shape_.group());
  if (shape_.sinks) contiguous(kSinks, heads * shape_.group());
  for (const OwnTensor slot : {kKScale, kVScale}) {
    if (shape_.narrow) contiguous(slot, shape_.head_scales ? heads : 1);
  }
  extents = {batch, heads, made.capacity};
  call = made.call();
}

class DecodeAttention final : public Kernel {
 public:
  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return summary_; }
  const ProblemSchema& schema() const override { return decode_attention_schema(); }
  const std::vector<Preset>& presets() const override { return decode_attention_presets(); }
  std::string advice_for_unknown_preset(std::string_view name) const override { return decode_attention_advice(name); }
  void check(const Problem& problem) const override { check_decode_attention(problem); }

  Assignment specialization(const Problem& problem) const override { return DecodeShape(problem).specialization(); }

  const std::vector<std::string>& free_dimensions() const override {
    static const std::vector<std::string> names = {"batch", "kv_heads", "context"};
    return names;
  }
  std::vector<std::string> free_lengths() const override { return {"context"}; }

  Problem problem_of(const Assignment& specialization, const Extents& extents) const override {
    return decode_attention_problem_of(specialization, extents);
  }

  const CallSchema& call_schema() const override { return decode_attention_call_schema(); }

  Call default_call(const Problem& problem) const override { return DecodeCall(DecodeShape(problem)).call(); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_decode_attention_call(DecodeShape(problem), DecodeCall(call));
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<DecodeFamily>(DecodeShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    return decode_attention_buffers(DecodeShape(problem), DecodeCall(call), seed);
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return decode_attention_launcher(config, DecodeShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return decode_attention_reference_plan(which, DecodeShape(problem), DecodeCall(call));
  }

  Cost cost(const Problem& problem) const override { return decode_attention_cost(DecodeShape(problem)); }

 private:
  const std::string name_ = "decode_attention";
  const std::string summary_ =
      "attention of a sequence's newest 1 to 4 tokens over its KV cache (GQA, paged, ragged, windows, sinks)";
};

}  // namespace

const Kernel& decode_attention() {
  static const DecodeAttention kernel;
  return kernel;
}

}  // namespace moetune
