#include "kernels/moe/router_family.h"

#include <charconv>

#include "base/error.h"
#include "kernels/moe/router_plan.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

// The order is part of the C interface (include/moetune_kernels.h).
enum RouterSlot {
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
  kRowExperts,
  kEnds,
  kDropped,
  kTokensPerRank,
  kInRank
};

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

std::vector<TensorSlot> router_slots(const RouterShape& shape) {
  using enum RouterShape::Layout;
  const bool plan = shape.has_plan(), ranks = shape.has_ranks();
  return {{"logits", shape.dtype, Role::input, true, 16},
          {"bias", DType::f32, Role::input, shape.bias, 4},
          {"ids", shape.ids, Role::output, true, dtype_bytes(shape.ids)},
          {"weights", DType::f32, Role::output, true, 4},
          {"counts", DType::i32, Role::output, plan || ranks, 4},
          {"offsets", DType::i32, Role::output, plan && shape.segment == 0, 4},
          {"sorted", DType::i32, Role::output, plan, 4},
          {"inverse", DType::i32, Role::output, plan, 4},
          {"block_experts", DType::i32, Role::output, shape.has_layout(blocks), 4},
          {"expert_map", DType::i32, Role::input, shape.mapped, 4},
          {"token_count", DType::i32, Role::input, shape.counted, 4},
          {"row_experts", DType::i32, Role::output, shape.has_layout(rows), 4},
          {"ends", DType::i32, Role::output, shape.has_layout(ends), 4},
          {"dropped", DType::u8, Role::output, shape.dropped, 1},
          {"tokens_per_rank", DType::i32, Role::output, ranks, 4},
          {"in_rank", DType::u8, Role::output, ranks, 1}};
}

class RouterFamily final : public TokensFamily {
 public:
  explicit RouterFamily(const RouterShape& shape) : TokensFamily("router", router_slots(shape)), shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_router_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    const TensorView& logits = matrix(tensors, kLogits, "tokens", shape_.experts);
    check({logits.shape[0]});
    const RouterShape shape = shape_.at({logits.shape[0]});
    require(tensors, kBias, shape.experts);
    require(tensors, kIds, shape.slots());
    require(tensors, kWeights, shape.slots());
    require(tensors, kCounts, shape.experts);
    require(tensors, kOffsets, shape.experts + 1);
    require(tensors, kSorted, shape.places());
    require(tensors, kInverse, shape.slots());
    require(tensors, kBlockExperts, shape.places() / shape.align);
    require(tensors, kExpertMap, shape.experts);
    require(tensors, kTokenCount, 1);
    require(tensors, kRowExperts, shape.places());
    require(tensors, kEnds, shape.experts);
    require(tensors, kDropped, shape.slots());
    require(tensors, kTokensPerRank, shape.ranks);
    require(tensors, kInRank, shape.tokens * shape.ranks);
    Call made;
    made.integers[kLogitsRow] = shape.tokens > 1 ? logits.strides[0] : shape.experts;
    made.reals[kRouterScale] = read_scale(options);
    check_router_call(shape, made);
    extents = {shape.tokens};
    call = made;
  }

 private:
  RouterShape shape_;
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
    refuse_call("logits_row=" + std::to_string(row) + " must be the number of experts or a multiple of 16 bytes");
}

}  // namespace moetune
