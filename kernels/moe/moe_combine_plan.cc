#include "kernels/moe/moe_combine_plan.h"

#include "base/integers.h"

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

}  // namespace

void check_moe_combine_call(const MoeShape& shape, const Call& call) {
  check_moe_row("moe_combine", "out_row", call.integers[kMoeRow], shape.hidden);
  check_moe_places("moe_combine", call.integers[kMoePlaces]);
}

std::unique_ptr<const Launcher> moe_combine_launcher(const Config& config, const MoeShape& shape,
                                                     const DeviceLimits& limits) {
  const MoeTeams teams(config);
  return make_launcher(combine_unit(config, shape), [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "moe_combine";
    teams.shape(launch, extents[0], limits);
    add_combine_arguments(launch, extents[0], call);
  });
}

Plan moe_combine_reference_plan(Reference which, const MoeShape& shape, const Call& call) {
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

}  // namespace moetune
