#include "kernels/moe/route_plan_launches.h"

#include "base/integers.h"
#include "kernels/moe/router_plan.h"

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

}  // namespace

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

}  // namespace moetune
