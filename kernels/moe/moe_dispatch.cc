// moe_dispatch: the rows of tokens in the order of their experts, as they are or in e4m3 with scales (docs/router.md).
#include <memory>

#include "base/integers.h"
#include "kernels/family_interface.h"
#include "kernels/kernel.h"
#include "kernels/moe/moe_dispatch_problem.h"
#include "kernels/moe/moe_kernel.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

constexpr std::int64_t kDispatchReferenceThreads = 128;

using Defines = std::vector<std::pair<std::string, std::string>>;

std::string dispatch_flag(bool is) { return is ? "1" : "0"; }

Defines dispatch_defines(const MoeDispatchShape& shape) {
  return {{"HIDDEN", std::to_string(shape.hidden)},
          {"TOP_K", std::to_string(shape.top_k)},
          {"SCALE", moe_scale_name(shape.scale)},
          {"BY_COLUMNS", dispatch_flag(shape.by_columns)},
          {"ZERO_PADDING", dispatch_flag(shape.zero_padding)}};
}

CompileUnit dispatch_unit(const Config& config, const MoeDispatchShape& shape) {
  CompileUnit unit{"templates/moe_dispatch/moe_dispatch.cu", dispatch_defines(shape)};
  for (const auto& [macro, name] : {std::pair<const char*, const char*>{"BY", "by"},
                                    {"TEAM", "team"},
                                    {"WARPS", "warps"},
                                    {"SPLITS", "splits"},
                                    {"VECTOR", "vector"},
                                    {"FLIGHT", "flight"},
                                    {"KEEP", "keep"},
                                    {"AHEAD", "ahead"}})
    unit.defines.emplace_back(macro, config.at(name).text());
  unit.defines.emplace_back("STREAM", dispatch_flag(config.is("stores", "stream")));
  return unit;
}

std::int32_t dispatch_int(std::int64_t value) { return static_cast<std::int32_t>(value); }

// The order is part of the C interface (include/moetune_kernels.h).
enum DispatchSlot { kDispatchX, kDispatchSorted, kDispatchInverse, kDispatchRows, kDispatchScales };

// Tensors, in the order of the C interface: x bf16 [tokens, hidden], whose rows may lie apart; sorted i32 [places] and
// inverse i32 [tokens, top_k] as the router writes them; rows [places, hidden] in bf16 or e4m3; scales f32 [places,
// groups], or [groups, places rounded up to a multiple of 4]. No options. The axis of its table is the number of
// tokens.
class MoeDispatchFamily final : public TokensFamily {
 public:
  explicit MoeDispatchFamily(const MoeDispatchShape& shape)
      : TokensFamily("moe_dispatch", {{"x", DType::bf16, Role::input, true, 16},
                                      {"sorted", DType::i32, Role::input, true, 4},
                                      {"inverse", DType::i32, Role::input, true, 4},
                                      {"rows", shape.dtype(), Role::output, true, 16},
                                      {"scales", DType::f32, Role::output, shape.narrow(), 4}}),
        shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_moe_dispatch_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& x = matrix(tensors, kDispatchX, "tokens", shape_.hidden);
    const TensorView& sorted = require_tensor(this->tensors(), tensors, kDispatchSorted);
    if (sorted.shape.size() != 1) refuse("tensor 'sorted' must be [places]");
    const std::int64_t tokens = x.shape[0], places = sorted.shape[0];
    check({tokens});
    Call made;
    made.integers[kMoeRow] = tokens > 1 ? x.strides[0] : shape_.hidden;
    made.integers[kMoePlaces] = places;
    check_moe_dispatch_call(shape_, made);
    require(tensors, kDispatchSorted, places);
    require(tensors, kDispatchInverse, tokens * shape_.top_k);
    require(tensors, kDispatchRows, places * shape_.hidden);
    require(tensors, kDispatchScales, shape_.scale_elements(places));
    extents = {tokens};
    call = made;
  }

 private:
  MoeDispatchShape shape_;
};

class MoeDispatch final : public MoeKernel {
 public:
  MoeDispatch()
      : MoeKernel(
            "moe_dispatch", "the rows of tokens in the order of their experts, in bf16 or in e4m3 with scales",
            {"hidden", "top_k", "out", "scale", "scale_layout", "padding"},
            {{"x_row", "elements from a token's row of x to the next token's"}, {"places", "rows that are written"}}) {}

  const ProblemSchema& schema() const override { return moe_dispatch_schema(); }
  void check(const Problem& problem) const override { check_moe_dispatch(problem); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_moe_dispatch_call(MoeDispatchShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<MoeDispatchFamily>(MoeDispatchShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    const MoeDispatchShape shape(problem);
    const std::int64_t places = call.integers[kMoePlaces];
    RoutingPlan routing = shape.routing(places, seed);
    Buffer rows{.name = "rows",
                .dtype = shape.dtype(),
                .elements = places * shape.hidden,
                .role = Role::output,
                .check = OutputCheck::exact()};
    std::vector<Buffer> buffers = {moe_x(shape, DType::bf16, call.integers[kMoeRow]),
                                   moe_list("sorted", std::move(routing.sorted)),
                                   moe_list("inverse", std::move(routing.inverse)), std::move(rows)};
    if (shape.narrow())
      buffers.push_back({.name = "scales",
                         .elements = shape.scale_elements(places),
                         .role = Role::output,
                         .check = OutputCheck::exact()});
    return buffers;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const MoeDispatchShape of(problem);
    const MoeTeams teams(config);
    const bool by_token = config.is("by", "token"), narrow = of.narrow();
    return make_launcher(dispatch_unit(config, of), [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
      const std::int64_t places = call.integers[kMoePlaces];
      Launch& launch = plan.launches.emplace_back();
      launch.entry = "moe_dispatch";
      teams.shape(launch, by_token ? extents[0] : places, limits);
      launch.arguments = {{"x", Pointer{"x"}},
                          {"sorted", Pointer{"sorted"}},
                          {"inverse", Pointer{"inverse"}},
                          {"rows", Pointer{"rows"}},
                          {"scales", narrow ? Pointer{"scales"} : Pointer{}},
                          {"x_row", call.integers[kMoeRow]},
                          {"tokens", dispatch_int(extents[0])},
                          {"places", dispatch_int(places)}};
    });
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    const MoeDispatchShape shape(problem);
    const std::int64_t places = call.integers[kMoePlaces];
    Plan plan;
    plan.unit = {"templates/moe_dispatch/reference.cu", dispatch_defines(shape)};
    plan.unit.defines.emplace_back("EXACT", dispatch_flag(which == Reference::exact));
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "moe_dispatch_reference";
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(places * shape.groups(), kDispatchReferenceThreads));
    launch.block[0] = static_cast<std::uint32_t>(kDispatchReferenceThreads);
    launch.arguments = {{"x", Pointer{"x"}},
                        {"sorted", Pointer{"sorted"}},
                        {"rows", Pointer{"rows"}},
                        {"scales", shape.narrow() ? Pointer{"scales"} : Pointer{}},
                        {"x_row", call.integers[kMoeRow]},
                        {"tokens", dispatch_int(shape.tokens)},
                        {"places", dispatch_int(places)}};
    return plan;
  }

  // A token's row counts once however many experts it has. The smaller of the two permutations would do.
  Cost cost(const Problem& problem) const override {
    const MoeDispatchShape shape(problem);
    const std::int64_t places = shape.zero_padding ? shape.sizes.places() : shape.slots();
    const auto values = static_cast<double>(shape.tokens * shape.hidden);
    Cost cost{.read_bytes = 2 * values + 4 * static_cast<double>(shape.slots()),
              .written_bytes = static_cast<double>(places * shape.hidden * dtype_bytes(shape.dtype()))};
    if (shape.narrow()) cost.written_bytes += 4 * static_cast<double>(shape.scale_elements(places));
    cost.flops.fp32 = (shape.narrow() ? 3 : 1) * values;  // the largest, the product, the rounding
    return cost;
  }
};

}  // namespace

const Kernel& moe_dispatch() {
  static const MoeDispatch kernel;
  return kernel;
}

}  // namespace moetune
