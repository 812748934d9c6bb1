// moe_combine: each token's output as the weighted sum of its experts' rows (docs/router.md).
#include "kernels/moe/moe_combine_family.h"
#include "kernels/moe/moe_combine_plan.h"
#include "kernels/moe/moe_kernel.h"

namespace moetune {
namespace {

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
    return moe_combine_family(MoeShape(problem));
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
    return moe_combine_launcher(config, MoeShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return moe_combine_reference_plan(which, MoeShape(problem), call);
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
