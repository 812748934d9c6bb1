// moe_combine: each token's output as the weighted sum of its experts' rows (docs/router.md).
#include <memory>

#include "base/integers.h"
#include "kernels/family_interface.h"
#include "kernels/kernel.h"
#include "kernels/moe/moe_kernel.h"
#include "kernels/moe/moe_problem.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

constexpr std::int64_t kCombineReferenceThreads = 256;

using Defines = std::vector<std::pair<std::string, std::string>>;

Defines combine_defines(const MoeShape& shape) {
  return {{"HIDDEN", std::to_string(shape.hidden)}, {"TOP_K", std::to_string(shape.top_k)}};
}

CompileUnit combine_unit(const Config& config, const MoeShape& shape) {
  CompileUnit unit{"templates/moe_combine/moe_combine.cu", combine_defines(shape)};
  for (const auto& [macro, name] : {std::pair<const char*, const char*>{"TEAM", "team"},
                                    {"WARPS", "warps"},
                                    {"SPLITS", "splits"},
                                    {"VECTOR", "vector"},
                                    {"VECTORS", "vectors"},
                                    {"ROWS", "rows"},
                                    {"AHEAD", "ahead"}})
    unit.defines.emplace_back(macro, config.at(name).text());
  unit.defines.emplace_back("STREAM", config.is("loads", "stream") ? "1" : "0");
  return unit;
}

void add_combine_arguments(Launch& launch, std::int64_t tokens, const Call& call) {
  launch.arguments = {{"rows", Pointer{"rows"}},           {"inverse", Pointer{"inverse"}},
                      {"weights", Pointer{"weights"}},     {"out", Pointer{"out"}},
                      {"out_row", call.integers[kMoeRow]}, {"tokens", static_cast<std::int32_t>(tokens)}};
}

// Throws BadInput.
void check_moe_combine_call(const MoeShape& shape, const Call& call) {
  check_moe_row("moe_combine", "out_row", call.integers[kMoeRow], shape.hidden);
  check_moe_places("moe_combine", call.integers[kMoePlaces]);
}

// The order is part of the C interface (include/moetune_kernels.h).
enum CombineSlot { kCombineRows, kCombineInverse, kCombineWeights, kCombineOut };

// Tensors, in the order of the C interface: rows bf16 [places, hidden]; inverse i32 [tokens, top_k], places or -1;
// weights f32 [tokens, top_k]; out bf16 [tokens, hidden], whose rows may lie apart. No options. The axis of its table
// is the number of tokens.
class MoeCombineFamily final : public TokensFamily {
 public:
  explicit MoeCombineFamily(const MoeShape& shape)
      : TokensFamily("moe_combine", {{"rows", DType::bf16, Role::input, true, 16},
                                     {"inverse", DType::i32, Role::input, true, 4},
                                     {"weights", DType::f32, Role::input, true, 4},
                                     {"out", DType::bf16, Role::output, true, 16}}),
        shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_moe_combine_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& out = matrix(tensors, kCombineOut, "tokens", shape_.hidden);
    const TensorView& rows = matrix(tensors, kCombineRows, "places", shape_.hidden);
    const std::int64_t tokens = out.shape[0], places = rows.shape[0];
    check({tokens});
    Call made;
    made.integers[kMoeRow] = tokens > 1 ? out.strides[0] : shape_.hidden;
    made.integers[kMoePlaces] = places;
    check_moe_combine_call(shape_, made);
    require(tensors, kCombineRows, places * shape_.hidden);
    require(tensors, kCombineInverse, tokens * shape_.top_k);
    require(tensors, kCombineWeights, tokens * shape_.top_k);
    extents = {tokens};
    call = made;
  }

 private:
  MoeShape shape_;
};

// Rows that belong to no slot, as runs of elements.
std::vector<Range> padding_of(const RoutingPlan& routing, const MoeShape& shape) {
  std::vector<Range> ranges;
  for (std::size_t place = 0; place < routing.sorted.size(); ++place) {
    if (routing.sorted[place] < shape.slots()) continue;
    const auto begin = static_cast<std::int64_t>(place) * shape.hidden;
    const bool continues = !ranges.empty() && ranges.back().begin + ranges.back().count == begin;
    if (continues) {
      ranges.back().count += shape.hidden;
    } else {
      ranges.push_back({begin, shape.hidden});
    }
  }
  return ranges;
}

class MoeCombine final : public MoeKernel {
 public:
  MoeCombine()
      : MoeKernel("moe_combine", "each token's output as the weighted sum of its experts' rows, in fp32",
                  {"hidden", "top_k"},
                  {{"out_row", "elements from a token's row of the output to the next token's"},
                   {"places", "rows that are read from"}}) {}

  const ProblemSchema& schema() const override {
    static const ProblemSchema schema = moe_schema();
    return schema;
  }
  void check(const Problem& problem) const override { check_moe("moe_combine", problem); }

  void check_call(const Problem& problem, const Call& call) const override {
    check_moe_combine_call(MoeShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return std::make_unique<MoeCombineFamily>(MoeShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    const MoeShape shape(problem);
    const std::int64_t places = call.integers[kMoePlaces];
    RoutingPlan routing = shape.routing(places, seed);
    Buffer rows{
        .name = "rows", .dtype = DType::bf16, .elements = places * shape.hidden, .rotates = true, .fresh = true};
    rows.fill = {.kind = Fill::Kind::normal, .poison = padding_of(routing, shape)};
    return {std::move(rows), moe_list("inverse", std::move(routing.inverse)), moe_weights(shape),
            moe_out(shape, DType::bf16, call.integers[kMoeRow],
                    {.dissimilarity = 1e-5, .baseline_factor = 2.0, .terms = static_cast<double>(shape.top_k)})};
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    const MoeTeams teams(config);
    return make_launcher(combine_unit(config, MoeShape(problem)),
                         [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
                           Launch& launch = plan.launches.emplace_back();
                           launch.entry = "moe_combine";
                           teams.shape(launch, extents[0], limits);
                           add_combine_arguments(launch, extents[0], call);
                         });
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    const MoeShape shape(problem);
    Plan plan;
    plan.unit = {"templates/moe_combine/reference.cu", combine_defines(shape)};
    plan.unit.defines.emplace_back("EXACT", which == Reference::exact ? "1" : "0");
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "moe_combine_reference";
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(shape.tokens * shape.hidden, kCombineReferenceThreads));
    launch.block[0] = static_cast<std::uint32_t>(kCombineReferenceThreads);
    add_combine_arguments(launch, shape.tokens, call);
    return plan;
  }

  // Rows of padding are not read; dropped slots, whose number depends on the routing, are counted.
  Cost cost(const Problem& problem) const override {
    const MoeShape shape(problem);
    const auto slots = static_cast<double>(shape.slots()), hidden = static_cast<double>(shape.hidden);
    return {.read_bytes = slots * (2 * hidden + 8),
            .written_bytes = 2 * static_cast<double>(shape.tokens) * hidden,
            .flops = {.fp32 = 2 * slots * hidden}};
  }
};

}  // namespace

const Kernel& moe_combine() {
  static const MoeCombine kernel;
  return kernel;
}

}  // namespace moetune
