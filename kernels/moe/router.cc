// The router: from logits to ids and weights of the experts of each token, and to the permutation that brings the
// tokens of one expert together (docs/router.md).
#include <algorithm>
#include <charconv>
#include <memory>

#include "base/error.h"
#include "kernels/family_interface.h"
#include "kernels/moe/router_plan.h"
#include "kernels/moe/router_problem.h"
#include "kernels/moe/routing_kernel.h"
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

// A space keeps to vectors that divide a token's logits, so that rows at multiples of the experts always do.
// Throws BadInput for rows of logits that overlap, or that vectors cannot be read from.
void check_router_call(const RouterShape& shape, const Call& call) {
  const std::int64_t row = call.integers[kLogitsRow];
  if (row < shape.experts || row > (std::int64_t{1} << 20))
    refuse_call("logits_row=" + std::to_string(row) + " does not hold a token's logits");
  if (row != shape.experts && row * dtype_bytes(shape.dtype) % 16 != 0)
    refuse_call("logits_row=" + std::to_string(row) + " must be the number of experts or a multiple of 16 bytes");
}

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

// Tensors, in the order of the C interface: logits [tokens, experts], whose rows may lie apart; bias
// [experts]; ids and weights [tokens, top_k]; counts [experts]; offsets [experts + 1]; sorted [places];
// inverse [tokens, top_k]; block_experts [places / align]; expert_map [experts]; token_count [1]; row_experts
// [places]; ends [experts]; dropped [tokens, top_k]; tokens_per_rank [ranks]; in_rank [tokens, ranks]. Option:
// scale=NUMBER. The axis of its table is the number of tokens.
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

// A weight is a ratio of exponentials. That of a logit near 16 is off by as much as a sum of 256 terms.
constexpr double kExponential = 256;

class Router final : public RoutingKernel {
 public:
  Router()
      : RoutingKernel(
            "router",
            "top-k experts of each token with their weights, and the permutation that groups tokens by expert") {}

  const ProblemSchema& schema() const override { return router_schema(); }
  const std::vector<Preset>& presets() const override { return router_presets(); }
  void check(const Problem& problem) const override { check_router(problem); }

  const CallSchema& call_schema() const override {
    static const CallSchema schema = {
        .integers = {{"logits_row", "elements from a token's logits to the next token's"}},
        .reals = {{"scale", "factor of all weights"}}};
    return schema;
  }

  Call default_call(const Problem& problem) const override {
    Call call;
    call.integers[kLogitsRow] = problem["experts"];
    call.reals[kRouterScale] = 1;
    return call;
  }

  void check_call(const Problem& problem, const Call& call) const override {
    check_router_call(RouterShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<RouterFamily>(RouterShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t) const override {
    const RouterShape shape(problem);
    const std::int64_t row = call.integers[kLogitsRow];
    Buffer logits{.name = "logits", .dtype = shape.dtype, .elements = (shape.tokens - 1) * row + shape.experts};
    logits.fresh = true;
    logits.fill = {.kind = Fill::Kind::columns, .shifts = shape.load_shifts()};
    logits.fill.shifts.resize(static_cast<std::size_t>(row));
    std::vector<Buffer> buffers = {std::move(logits)};
    if (shape.bias) {
      buffers.push_back({.name = "bias", .elements = shape.experts});
      buffers.back().fill = {.kind = Fill::Kind::normal, .scale = 0.1f};
    }
    const auto add_list = [&](const char* name, std::vector<std::int32_t> list) {
      buffers.push_back({.name = name, .dtype = DType::i32, .elements = std::ssize(list)});
      buffers.back().fill = {.kind = Fill::Kind::integers, .integers = std::move(list)};
    };
    if (shape.mapped) add_list("expert_map", shape.sample_map());
    if (shape.counted) add_list("token_count", {static_cast<std::int32_t>(shape.sample_count())});
    const auto add = [&](const char* name, DType type, std::int64_t elements, OutputCheck check) {
      buffers.push_back({.name = name, .dtype = type, .elements = elements, .role = Role::output});
      buffers.back().check = std::move(check);
    };
    const auto add_integers = [&](const char* name, std::int64_t elements, DType type = DType::i32) {
      add(name, type, elements, OutputCheck::exact());
    };
    add_integers("ids", shape.slots(), shape.ids);
    add("weights", DType::f32, shape.slots(),
        OutputCheck::within({.dissimilarity = 1e-9, .terms = kExponential + static_cast<double>(shape.experts)}));
    if (shape.has_plan() || shape.has_ranks()) add_integers("counts", shape.experts);
    if (shape.has_ranks()) {
      add_integers("tokens_per_rank", shape.ranks);
      add_integers("in_rank", shape.tokens * shape.ranks, DType::u8);
    }
    if (!shape.has_plan()) return buffers;
    if (shape.segment == 0) add_integers("offsets", shape.experts + 1);
    add_integers("sorted", shape.places());
    add_integers("inverse", shape.slots());
    if (shape.grouping() != nullptr) add_integers(shape.grouping(), shape.grouping_elements());
    if (shape.dropped) add_integers("dropped", shape.slots(), DType::u8);
    return buffers;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return router_launcher(config, RouterShape(problem), limits);
  }

  Plan reference(Reference, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return router_reference_plan(RouterShape(problem), call);
  }

  Cost cost(const Problem& problem) const override {
    Cost cost{.inputs = Inputs::warm};
    const Call call = default_call(problem);
    for (const Buffer& buffer : buffers(problem, call, 0))
      (buffer.is_written() ? cost.written_bytes : cost.read_bytes) += static_cast<double>(buffer.bytes());
    const RouterShape shape(problem);
    // A score is some ten operations, and each round of the selection looks at all of them.
    cost.flops.fp32 = static_cast<double>(shape.tokens * shape.experts * (10 + shape.top_k));
    return cost;
  }
};

}  // namespace

const Kernel& router() {
  static const Router kernel;
  return kernel;
}

}  // namespace moetune
