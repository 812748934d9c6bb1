#include "kernels/moe/moe_dispatch_plan.h"

#include "base/integers.h"

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

}  // namespace

std::unique_ptr<const Launcher> moe_dispatch_launcher(const Config& config, const MoeDispatchShape& of,
                                                      const DeviceLimits& limits) {
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

Plan moe_dispatch_reference_plan(Reference which, const MoeDispatchShape& shape, const Call& call) {
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

}  // namespace moetune
