// route_plan: the router's counts, offsets and permutations of experts that somebody else chose (docs/router.md).
#include <algorithm>
#include <memory>

#include "base/integers.h"
#include "kernels/family_interface.h"
#include "kernels/kernel.h"
#include "kernels/moe/moe_problem.h"
#include "kernels/moe/route_plan_problem.h"
#include "kernels/moe/router_plan.h"
#include "kernels/moe/routing_kernel.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

constexpr std::uint32_t kPlanReferenceThreads = 128;
constexpr std::int64_t kLanesOfWarp = 32;

using Defines = std::vector<std::pair<std::string, std::string>>;

// Macros of templates/router/segments.cuh.
Defines segment_defines(const RoutePlanShape& shape) {
  const auto flag = [](bool is) { return std::string(is ? "1" : "0"); };
  return {{"EXPERTS", std::to_string(shape.experts)},
          {"TOP_K", std::to_string(shape.top_k)},
          {"MAPPED", flag(shape.mapped)},
          {"COUNTED", flag(shape.counted)},
          {"ALIGN", std::to_string(shape.align)},
          {"SEGMENT", std::to_string(shape.segment)},
          {"LAYOUT", std::string(router_layout_name(shape.layout))},
          {"IDS", shape.ids == DType::i64 ? "i64" : "int"},
          {"DROPPED", flag(shape.dropped)}};
}

CompileUnit route_plan_unit(const Config& config, const RoutePlanShape& shape) {
  CompileUnit unit{"templates/route_plan/route_plan.cu", segment_defines(shape)};
  for (const auto& [macro, name] : {std::pair<const char*, const char*>{"SCHEDULE", "schedule"},
                                    {"WARPS", "warps"},
                                    {"FLIGHT", "flight"},
                                    {"PAD", "pad"}})
    unit.defines.emplace_back(macro, config.at(name).text());
  return unit;
}

Argument optional_pointer(bool present, const char* name) { return {name, present ? Pointer{name} : Pointer{}}; }

Argument int_argument(const char* name, std::int64_t value) { return {name, static_cast<std::int32_t>(value)}; }

void add_id_arguments(Launch& launch, const RoutePlanShape& shape) {
  launch.arguments.push_back({"ids", Pointer{"ids"}});
  launch.arguments.push_back(optional_pointer(shape.mapped, "expert_map"));
  launch.arguments.push_back(optional_pointer(shape.counted, "token_count"));
}

Argument grouping_argument(const RoutePlanShape& shape) {
  const char* const name = shape.grouping();
  return {"grouping", name != nullptr ? Pointer{name} : Pointer{}};
}

// Both kernels take the same arguments, but for the counter of finished blocks.
void add_plan_arguments(Launch& launch, const RoutePlanShape& shape, const Call& call, bool is_split, bool is_first,
                        std::int64_t slots_each) {
  add_id_arguments(launch, shape);
  launch.arguments.push_back({"counts", Pointer{"counts"}});
  launch.arguments.push_back(optional_pointer(shape.segment == 0, "offsets"));
  launch.arguments.push_back({"sorted", Pointer{"sorted"}});
  launch.arguments.push_back({"inverse", Pointer{"inverse"}});
  launch.arguments.push_back(grouping_argument(shape));
  launch.arguments.push_back(optional_pointer(is_split, "block_counts"));
  if (is_first) launch.arguments.push_back({"state", is_split ? Pointer{"route_plan_state"} : Pointer{}});
  launch.arguments.push_back({"map_size", call.integers[kMapSize]});
  launch.arguments.push_back(int_argument("tokens", shape.tokens));
  launch.arguments.push_back(int_argument("slots_each", slots_each));
  launch.arguments.push_back(int_argument("capacity", shape.sizes().slots_of_expert()));
  launch.arguments.push_back(int_argument("places", shape.places()));
  launch.arguments.push_back(optional_pointer(shape.dropped, "dropped"));
}

std::unique_ptr<const Launcher> route_plan_launcher(const Config& config, const RoutePlanShape& of,
                                                    const DeviceLimits& limits) {
  const std::int64_t warps = config.number("warps"), most_blocks = config.number("blocks");
  const bool is_split = config.is("schedule", "split");
  // Tally of templates/router/place.cuh, and ApartTally of templates/route_plan/route_plan.cu.
  const std::int64_t shared = 4 * (warps * of.experts + router_layout_words(of.experts) + (is_split ? 0 : of.experts));
  return make_launcher(route_plan_unit(config, of), [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
    const RoutePlanShape shape = of.at(extents);
    const std::int64_t each = ceil_div(ceil_div(shape.slots(), most_blocks), kLanesOfWarp) * kLanesOfWarp;
    const std::int64_t blocks = ceil_div(shape.slots(), each);
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "route_plan";
    launch.grid[0] = static_cast<std::uint32_t>(blocks);
    launch.block[0] = static_cast<std::uint32_t>(kLanesOfWarp * warps);
    launch.dynamic_shared = static_cast<std::uint32_t>(shared);
    launch.programmatic_dependent = limits.compute_capability >= 90;
    const LaunchShape shape_of_launch = launch;
    add_plan_arguments(launch, shape, call, is_split, true, each);
    if (!is_split) return;
    plan.scratch.push_back({"route_plan_state", 4, true});  // GridState of templates/router/arrival.cuh
    plan.scratch.push_back({"block_counts", 4 * blocks * shape.experts, false});
    Launch& place = plan.launches.emplace_back();
    static_cast<LaunchShape&>(place) = shape_of_launch;
    place.entry = "route_plan_place";
    add_plan_arguments(place, shape, call, true, false, each);
  });
}

Plan route_plan_reference_plan(const RoutePlanShape& shape, const Call& call) {
  Plan plan;
  plan.unit = {"templates/route_plan/reference.cu", segment_defines(shape)};
  const auto add = [&](const char* entry, std::int64_t threads) -> Launch& {
    Launch& launch = plan.launches.emplace_back();
    launch.entry = entry;
    launch.block[0] = kPlanReferenceThreads;
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(threads, std::int64_t{kPlanReferenceThreads}));
    return launch;
  };
  const auto pointer = [](const char* name) { return Argument{name, Pointer{name}}; };
  const Argument offsets = optional_pointer(shape.segment == 0, "offsets"), sorted = pointer("sorted"),
                 map_size{"map_size", call.integers[kMapSize]}, tokens = int_argument("tokens", shape.tokens),
                 capacity = int_argument("capacity", shape.sizes().slots_of_expert());
  const auto add_arguments = [](Launch& launch, std::initializer_list<Argument> more) {
    for (const Argument& argument : more) launch.arguments.push_back(argument);
  };
  Launch& counts = add("route_plan_reference_counts", shape.experts);
  add_id_arguments(counts, shape);
  add_arguments(counts, {pointer("counts"), map_size, tokens, capacity});
  add_arguments(add("route_plan_reference_offsets", 1), {pointer("counts"), offsets, sorted, grouping_argument(shape),
                                                         tokens, int_argument("places", shape.places())});
  Launch& places = add("route_plan_reference_places", shape.experts);
  add_id_arguments(places, shape);
  add_arguments(places, {offsets, sorted, pointer("inverse"), grouping_argument(shape),
                         optional_pointer(shape.dropped, "dropped"), map_size, tokens, capacity});
  return plan;
}

// The order is part of the C interface (include/moetune_kernels.h).
enum RoutePlanSlot {
  kPlanIds,
  kPlanExpertMap,
  kPlanTokenCount,
  kPlanCounts,
  kPlanOffsets,
  kPlanSorted,
  kPlanInverse,
  kPlanBlockExperts,
  kPlanRowExperts,
  kPlanEnds,
  kPlanDropped
};

std::vector<TensorSlot> route_plan_slots(const RoutePlanShape& shape) {
  using enum RouterShape::Layout;
  const auto has = [&](RouterShape::Layout layout) { return shape.layout == layout; };
  return {{"ids", shape.ids, Role::input, true, dtype_bytes(shape.ids)},
          {"expert_map", DType::i32, Role::input, shape.mapped, 4},
          {"token_count", DType::i32, Role::input, shape.counted, 4},
          {"counts", DType::i32, Role::output, true, 4},
          {"offsets", DType::i32, Role::output, shape.segment == 0, 4},
          {"sorted", DType::i32, Role::output, true, 4},
          {"inverse", DType::i32, Role::output, true, 4},
          {"block_experts", DType::i32, Role::output, has(blocks), 4},
          {"row_experts", DType::i32, Role::output, has(rows), 4},
          {"ends", DType::i32, Role::output, has(ends), 4},
          {"dropped", DType::u8, Role::output, shape.dropped, 1}};
}

// Tensors, in the order of the C interface: ids [tokens, top_k]; expert_map [any number]; token_count [1]; counts
// [experts]; offsets [experts + 1]; sorted [places]; inverse [tokens, top_k]; block_experts [places / align];
// row_experts [places]; ends [experts]; dropped [tokens, top_k]. The axis of its table is the number of tokens.
class RoutePlanFamily final : public TokensFamily {
 public:
  explicit RoutePlanFamily(const RoutePlanShape& shape)
      : TokensFamily("route_plan", route_plan_slots(shape)), shape_(shape) {}

  void check_call(const Extents&, const Call& call) const override { check_route_plan_call(shape_, call); }

  void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
            Call& call) const override {
    if (!options.empty()) refuse("unknown option '" + std::string(options) + "'; there are none");
    const TensorView& ids = matrix(tensors, kPlanIds, "tokens", shape_.top_k);
    check({ids.shape[0]});
    const RoutePlanShape shape = shape_.at({ids.shape[0]});
    Call made;
    if (shape.mapped) {
      const TensorView& map = require_tensor(this->tensors(), tensors, kPlanExpertMap);
      if (map.shape.size() != 1) refuse("tensor 'expert_map' must have one dimension");
      made.integers[kMapSize] = map.shape[0];
    }
    require(tensors, kPlanIds, shape.slots());
    require(tensors, kPlanExpertMap, made.integers[kMapSize]);
    require(tensors, kPlanTokenCount, 1);
    require(tensors, kPlanCounts, shape.experts);
    require(tensors, kPlanOffsets, shape.experts + 1);
    require(tensors, kPlanSorted, shape.places());
    require(tensors, kPlanInverse, shape.slots());
    require(tensors, kPlanBlockExperts, shape.places() / shape.align);
    require(tensors, kPlanRowExperts, shape.places());
    require(tensors, kPlanEnds, shape.experts);
    require(tensors, kPlanDropped, shape.slots());
    check_route_plan_call(shape, made);
    extents = {shape.tokens};
    call = made;
  }

 private:
  RoutePlanShape shape_;
};

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
    return std::make_unique<RoutePlanFamily>(RoutePlanShape(problem));
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
