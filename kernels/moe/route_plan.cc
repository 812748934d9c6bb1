// route_plan: the router's counts, offsets and permutations of experts that somebody else chose (docs/router.md).
#include <algorithm>

#include "kernels/moe/moe_problem.h"
#include "kernels/moe/route_plan_family.h"
#include "kernels/moe/route_plan_launches.h"
#include "kernels/moe/routing_kernel.h"

namespace moetune {
namespace {

class RoutePlan final : public RoutingKernel {
 public:
  RoutePlan()
      : RoutingKernel("route_plan",
                      "the router's counts, offsets and permutations, of experts that somebody else chose") {}

  const ProblemSchema& schema() const override { return route_plan_schema(); }
  const std::vector<Preset>& presets() const override { return route_plan_presets(); }
  void check(const Problem& problem) const override { check_route_plan(problem); }

  const CallSchema& call_schema() const override {
    static const CallSchema schema = {.integers = {{"map_size", "entries of the expert map; 0 without one"}},
                                      .reals = {}};
    return schema;
  }

  Call default_call(const Problem& problem) const override {
    Call call;
    call.integers[kMapSize] = RoutePlanShape(problem).sample_map_size();
    return call;
  }

  void check_call(const Problem& problem, const Call& call) const override {
    check_route_plan_call(RoutePlanShape(problem), call);
  }

  std::unique_ptr<const FamilyInterface> family_interface(const Problem& problem) const override {
    return route_plan_family(RoutePlanShape(problem));
  }

  std::vector<Buffer> buffers(const Problem& problem, const Call& call, std::uint64_t seed) const override {
    const RoutePlanShape shape(problem);
    const std::int64_t map_size = call.integers[kMapSize];
    std::vector<Buffer> buffers = {moe_list("ids", shape.sample_ids(map_size, seed))};
    buffers.back().dtype = shape.ids;
    buffers.back().fresh = true;
    if (shape.mapped) buffers.push_back(moe_list("expert_map", shape.sample_map(map_size)));
    if (shape.counted) buffers.push_back(moe_list("token_count", {static_cast<std::int32_t>(shape.sample_count())}));
    const auto add = [&](const char* name, std::int64_t elements, DType type = DType::i32) {
      buffers.push_back({.name = name, .dtype = type, .elements = elements, .role = Role::output});
      buffers.back().check = OutputCheck::exact();
    };
    add("counts", shape.experts);
    if (shape.segment == 0) add("offsets", shape.experts + 1);
    add("sorted", shape.places());
    add("inverse", shape.slots());
    if (shape.grouping() != nullptr) add(shape.grouping(), shape.grouping_elements());
    if (shape.dropped) add("dropped", shape.slots(), DType::u8);
    return buffers;
  }

  std::unique_ptr<const Launcher> launcher(const Config& config, const Problem& problem,
                                           const DeviceLimits& limits) const override {
    return route_plan_launcher(config, RoutePlanShape(problem), limits);
  }

  Plan reference(Reference, const Problem& problem, const Call& call, const DeviceLimits&) const override {
    return route_plan_reference_plan(RoutePlanShape(problem), call);
  }

  Cost cost(const Problem& problem) const override {
    const RoutePlanShape shape(problem);
    const std::int64_t slots = shape.slots(), lists = shape.segment == 0 ? 2 * shape.experts + 1 : shape.experts,
                       grouping = shape.grouping() == nullptr ? 0 : shape.grouping_elements(),
                       read = dtype_bytes(shape.ids) * slots + 4 * (shape.sample_map_size() + shape.counted),
                       written = 4 * (lists + shape.places() + slots + grouping) + shape.dropped * slots;
    return {.read_bytes = static_cast<double>(read),
            .written_bytes = static_cast<double>(written),
            .flops = {.fp32 = 2 * static_cast<double>(slots)},  // counts and places each slot
            .inputs = Inputs::warm};
  }
};

}  // namespace

const Kernel& route_plan() {
  static const RoutePlan kernel;
  return kernel;
}

}  // namespace moetune
