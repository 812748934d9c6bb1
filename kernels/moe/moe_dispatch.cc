// moe_dispatch: the rows of tokens in the order of their experts, as they are or in e4m3 with scales (docs/router.md).
#include "kernels/moe/moe_dispatch_family.h"
#include "kernels/moe/moe_dispatch_plan.h"
#include "kernels/moe/moe_kernel.h"

namespace moetune {
namespace {

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
    return moe_dispatch_family(MoeDispatchShape(problem));
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
    return moe_dispatch_launcher(config, MoeDispatchShape(problem), limits);
  }

  Plan reference(Reference which, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return moe_dispatch_reference_plan(which, MoeDispatchShape(problem), call);
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
