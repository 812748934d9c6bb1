#include "kernels/router_family.h"

#include <array>
#include <charconv>

#include "base/error.h"
#include "kernels/router_plan.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune.h).
enum Slot {
  kLogits,
  kBias,
  kIds,
  kWeights,
  kCounts,
  kOffsets,
  kSorted,
  kInverse,
  kBlockExperts,
  kExpertMap,
  kTokenCount,
  kSlots
};

constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;

[[noreturn]] void refuse_call(const std::string& rule) { throw BadInput("router: " + rule); }

double read_scale(std::string_view options) {
  constexpr std::string_view kName = "scale=";
  if (options.empty()) return 1;
  double scale = 0;
  const char* const end = options.data() + options.size();
  if (options.starts_with(kName)) {
    const auto [stop, error] = std::from_chars(options.data() + kName.size(), end, scale);
    if (error == std::errc() && stop == end && scale > 0) return scale;
  }
  refuse_call("unknown option '" + std::string(options) + "'; known is scale=NUMBER, a positive one");
}

class RouterFamily final : public FamilyInterface {
 public:
  explicit RouterFamily(const RouterShape& shape) : shape_(shape) {
    const auto set = [&](Slot slot, const char* name, DType type, Role role, bool present,
                         std::int64_t alignment) {
      slots_[slot] = {name, type, role, present, alignment};
    };
    set(kLogits, "logits", shape.dtype, Role::input, true, 16);
    set(kBias, "bias", DType::f32, Role::input, shape.bias, 4);
    set(kIds, "ids", DType::i32, Role::output, true, 4);
    set(kWeights, "weights", DType::f32, Role::output, true, 4);
    set(kCounts, "counts", DType::i32, Role::output, shape.plan, 4);
    set(kOffsets, "offsets", DType::i32, Role::output, shape.plan, 4);
    set(kSorted, "sorted", DType::i32, Role::output, shape.plan, 4);
    set(kInverse, "inverse", DType::i32, Role::output, shape.plan, 4);
    set(kBlockExperts, "block_experts", DType::i32, Role::output, shape.plan, 4);
    set(kExpertMap, "expert_map", DType::i32, Role::input, shape.mapped, 4);
    set(kTokenCount, "token_count", DType::i32, Role::input, shape.counted, 4);
  }

  std::span<const TensorSlot> tensors() const override { return slots_; }

  void check(const Extents& extents) const override {
    if (extents.size() != 1) refuse_call("the extents are the number of tokens");
    if (extents[0] < 1 || extents[0] > kMostTokens)
      refuse_call("tokens=" + std::to_string(extents[0]) + " is out of range (from 1 to " +
                  std::to_string(kMostTokens) + ")");
  }

  void check_call(const Extents&, const Call& call) const override { check_router_call(shape_, call); }

  TablePoint table_point(const Extents& extents, std::int64_t) const override {
    TablePoint point;
    point.position = {extents[0]};
    return point;
  }
  TablePoint table_point_of(const Problem& problem) const override {
    return table_point({problem["tokens"]}, 0);
  }
  Extents extents_at(const TablePoint& point, const Extents&) const override { return {point.position[0]}; }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    const TensorView& logits = require_tensor(slots_, tensors, kLogits);
    if (logits.shape.size() != 2 || logits.shape[1] != shape_.experts || logits.strides[1] != 1)
      refuse_call("tensor 'logits' must be [tokens, " + std::to_string(shape_.experts) +
                  "], a token's logits side by side");
    const RouterShape shape = shape_.at({logits.shape[0]});
    check({shape.tokens});
    const auto require = [&](Slot slot, std::int64_t elements) {
      if (slots_[slot].present)
        require_contiguous(slots_[slot], require_tensor(slots_, tensors, slot), elements);
    };
    require(kBias, shape.experts);
    require(kIds, shape.slots());
    require(kWeights, shape.slots());
    require(kCounts, shape.experts);
    require(kOffsets, shape.experts + 1);
    require(kSorted, shape.places());
    require(kInverse, shape.slots());
    require(kBlockExperts, shape.places() / shape.align);
    require(kExpertMap, shape.experts);
    require(kTokenCount, 1);
    extents = {shape.tokens};
    call = Call{};
    call.integers[kLogitsRow] = shape.tokens > 1 ? logits.strides[0] : shape.experts;
    call.reals[kRouterScale] = read_scale(options);
    check_router_call(shape, call);
  }

 private:
  RouterShape shape_;
  std::array<TensorSlot, kSlots> slots_;
};

}  // namespace

std::unique_ptr<const FamilyInterface> router_family(const RouterShape& shape) {
  return std::make_unique<RouterFamily>(shape);
}

// A space keeps to vectors that divide a token's logits, so that rows at multiples of the experts always do.
void check_router_call(const RouterShape& shape, const Call& call) {
  const std::int64_t row = call.integers[kLogitsRow];
  if (row < shape.experts || row > (std::int64_t{1} << 20))
    refuse_call("logits_row=" + std::to_string(row) + " does not hold a token's logits");
  if (row != shape.experts && row * dtype_bytes(shape.dtype) % 16 != 0)
    refuse_call("logits_row=" + std::to_string(row) +
                " must be the number of experts or a multiple of 16 bytes");
}

}  // namespace moetune
