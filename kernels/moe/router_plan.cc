#include "kernels/moe/router_plan.h"

#include <algorithm>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::uint32_t kRouterReferenceThreads = 128;
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kChunkTokens = 256;  // of templates/router/board.cuh
constexpr std::int64_t kDigits = 255;       // of templates/router/exchange.cuh
constexpr std::int64_t kRoundTokens = 256;  // of templates/router/cluster_board.cuh

std::string flag(bool is) { return is ? "1" : "0"; }

std::vector<std::pair<std::string, std::string>> shape_defines(const RouterShape& shape) {
  return {{"EXPERTS", std::to_string(shape.experts)},
          {"TOP_K", std::to_string(shape.top_k)},
          {"SCORE", std::string(router_score_name(shape.score))},
          {"BIAS", flag(shape.bias)},
          {"GROUPS", std::to_string(shape.groups)},
          {"GROUPS_KEPT", std::to_string(shape.groups_kept)},
          {"RENORMALIZE", flag(shape.renormalize)},
          {"LOGITS", shape.dtype == DType::f32    ? "Fp32"
                     : shape.dtype == DType::bf16 ? "Bf16"
                                                  : "Fp16"},
          {"PLAN", flag(shape.has_plan())},
          {"MAPPED", flag(shape.mapped)},
          {"COUNTED", flag(shape.counted)},
          {"ALIGN", std::to_string(shape.align)},
          {"SEGMENT", std::to_string(shape.segment)},
          {"LAYOUT", std::string(router_layout_name(shape.layout))},
          {"RANKS", std::to_string(shape.has_ranks() ? shape.ranks : 0)},
          {"IDS", shape.ids == DType::i64 ? "i64" : "int"},
          {"DROPPED", flag(shape.dropped)}};
}

CompileUnit unit_of(const Config& config, const RouterShape& shape) {
  CompileUnit unit{"templates/router/router.cu", shape_defines(shape)};
  for (const char* name : {"schedule", "select", "lanes", "vector", "rows", "warps", "dependents", "pad"}) {
    std::string macro = name;
    std::transform(macro.begin(), macro.end(), macro.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    unit.defines.emplace_back(macro, config.at(name).text());
  }
  return unit;
}

struct Schedule {
  explicit Schedule(const Config& config)
      : is_rows(config.is("schedule", "rows")),
        is_split(config.is("schedule", "split")),
        is_cluster(config.is("schedule", "cluster")),
        is_barrier(config.is("schedule", "barrier")),
        warps(config.number("warps")),
        rows_of_block(warps * (kWarp / config.number("lanes")) * config.number("rows")),
        blocks_per_sm(config.number("blocks_per_sm")),
        blocks(config.is("schedule", "block") ? 1
               : is_cluster                   ? config.number("cluster")
                                              : 0) {}

  bool is_rows, is_split, is_cluster, is_barrier;
  std::int64_t warps, rows_of_block, blocks_per_sm;
  std::int64_t blocks;  // whatever the number of tokens; 0: by the GPU's size
};

// kIdsOfRow of templates/router/cluster_board.cuh.
std::int64_t ids_of_row(std::int64_t top_k) {
  std::int64_t ids = 2;
  while (ids < top_k) ids *= 2;
  return ids;
}

// Tally of templates/router/place.cuh, Board of board.cuh, ClusterBoard of cluster_board.cuh, or Counters of ranks.cuh.
std::int64_t shared_bytes(const Schedule& schedule, const RouterShape& shape, std::int64_t tokens_each) {
  if (schedule.is_rows) return 0;
  if (shape.has_ranks()) return 4 * (shape.experts + shape.ranks + 1);
  if (schedule.is_cluster) {
    const std::int64_t tokens = std::min(shape.tokens, kRoundTokens);
    const std::int64_t ids = ceil_div(tokens, std::int64_t{4}) * 4 * ids_of_row(shape.top_k), inbox = 8;
    const std::int64_t sums = shape.tokens > kRoundTokens ? shape.experts : 0;
    return 2 * ids + inbox + 4 * (router_layout_words(shape.experts) + ceil_div(tokens, kWarp) * shape.experts + sums);
  }
  if (!schedule.is_barrier) return 4 * (schedule.warps * shape.experts + router_layout_words(shape.experts));
  const std::int64_t words = ceil_div(std::min(tokens_each, kChunkTokens), kWarp);
  return 4 * (router_layout_words(shape.experts) + 1 + (2 + words) * shape.experts) + 2 * kChunkTokens * shape.top_k;
}

// GridState of templates/router/arrival.cuh.
constexpr std::int64_t kRouterStateBytes = 4;

// GridCounts of templates/router/exchange.cuh, or each block's counters.
Scratch block_counts(const Schedule& schedule, const RouterShape& shape, std::int64_t blocks,
                     std::int64_t tokens_each) {
  if (!schedule.is_barrier)
    return {"block_counts", 4 * blocks * (shape.experts + (shape.has_ranks() ? shape.ranks : 0)), false};
  const std::int64_t planes = tokens_each >= kDigits ? 2 : 1;
  return {"block_counts", 4 * planes * blocks * ceil_div(shape.experts, std::int64_t{4}), true};
}

// Tokens of a block, of a cluster's in a round: whole rounds of its warps, except for a fixed number of blocks.
std::int64_t tokens_of_block(const Schedule& schedule, std::int64_t tokens, const DeviceLimits& limits) {
  if (schedule.is_cluster) tokens = std::min(tokens, kRoundTokens);
  if (schedule.blocks > 0) return std::max<std::int64_t>(1, ceil_div(tokens, schedule.blocks));
  const std::int64_t blocks = std::max<std::int64_t>(1, schedule.blocks_per_sm * limits.sm_count);
  const std::int64_t rounds = ceil_div(ceil_div(tokens, schedule.rows_of_block), blocks);
  return rounds * schedule.rows_of_block;
}

Argument pointer_if(bool present, const char* name) { return {name, present ? Pointer{name} : Pointer{}}; }

// Adds the arrays that a permutation is written to, and its scratch.
void add_place_arguments(Launch& launch, const RouterShape& shape) {
  launch.arguments.push_back(pointer_if(shape.has_plan() && shape.segment == 0, "offsets"));
  launch.arguments.push_back(pointer_if(shape.has_plan(), "sorted"));
  launch.arguments.push_back(pointer_if(shape.has_plan(), "inverse"));
  const char* const grouping = shape.grouping();
  launch.arguments.push_back({"grouping", grouping != nullptr ? Pointer{grouping} : Pointer{}});
  launch.arguments.push_back(pointer_if(shape.has_plan() || shape.has_ranks(), "block_counts"));
}

void add_route_arguments(Launch& launch, const RouterShape& shape, const Call& call) {
  launch.arguments = {{"logits", Pointer{"logits"}},
                      pointer_if(shape.bias, "bias"),
                      pointer_if(shape.mapped, "expert_map"),
                      pointer_if(shape.counted, "token_count"),
                      {"ids", Pointer{"ids"}},
                      {"weights", Pointer{"weights"}}};
  launch.arguments.push_back(pointer_if(shape.has_plan() || shape.has_ranks(), "counts"));
  add_place_arguments(launch, shape);
  launch.arguments.push_back({"state", shape.has_plan() || shape.has_ranks() ? Pointer{"router_state"} : Pointer{}});
  launch.arguments.push_back({"logits_row", call.integers[kLogitsRow]});
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

void add_sizes(Launch& launch, const RouterShape& shape, std::int64_t tokens_each) {
  launch.arguments.push_back({"tokens", narrow(shape.tokens)});
  launch.arguments.push_back({"tokens_of_block", narrow(tokens_each)});
  launch.arguments.push_back({"capacity", narrow(shape.slots_of_expert())});
  launch.arguments.push_back({"places", narrow(shape.places())});
}

void add_place_launch(LaunchPlan& plan, const RouterShape& shape, std::int64_t tokens_each) {
  const LaunchShape first = plan.launches[0];
  Launch& launch = plan.launches.emplace_back();
  static_cast<LaunchShape&>(launch) = first;
  launch.entry = "router_place";
  launch.arguments = {{"ids", Pointer{"ids"}}, pointer_if(shape.mapped, "expert_map"), {"counts", Pointer{"counts"}}};
  add_place_arguments(launch, shape);
  add_sizes(launch, shape, tokens_each);
  launch.arguments.push_back(pointer_if(shape.dropped, "dropped"));
}

}  // namespace

std::int64_t router_layout_words(std::int64_t experts) { return 2 * experts + 2 + ceil_div(experts, kWarp); }

std::unique_ptr<const Launcher> router_launcher(const Config& config, const RouterShape& of,
                                                const DeviceLimits& limits) {
  const Schedule schedule(config);
  return make_launcher(unit_of(config, of), [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
    const RouterShape shape = of.at(extents);
    const std::int64_t each = tokens_of_block(schedule, shape.tokens, limits);
    const std::int64_t blocks = schedule.blocks > 0 ? schedule.blocks : ceil_div(shape.tokens, each);
    Launch& launch = plan.launches.emplace_back();
    launch.entry = "router";
    launch.grid[0] = static_cast<std::uint32_t>(blocks);
    launch.block[0] = static_cast<std::uint32_t>(kWarp * schedule.warps);
    launch.dynamic_shared = static_cast<std::uint32_t>(shared_bytes(schedule, shape, each));
    if (schedule.is_cluster) launch.cluster[0] = launch.grid[0];
    launch.programmatic_dependent = limits.compute_capability >= 90;
    add_route_arguments(launch, shape, call);
    add_sizes(launch, shape, each);
    launch.arguments.push_back({"scale", static_cast<float>(call.reals[kRouterScale])});
    launch.arguments.push_back(pointer_if(shape.dropped, "dropped"));
    launch.arguments.push_back(pointer_if(shape.has_ranks(), "tokens_per_rank"));
    launch.arguments.push_back(pointer_if(shape.has_ranks(), "in_rank"));
    if (!shape.has_plan() && !shape.has_ranks()) return;
    plan.scratch.push_back({"router_state", kRouterStateBytes, true});
    plan.scratch.push_back(block_counts(schedule, shape, blocks, each));
    if (schedule.is_split && shape.has_plan()) add_place_launch(plan, shape, each);
  });
}

Plan router_reference_plan(const RouterShape& shape, const Call& call) {
  Plan plan;
  plan.unit = {"templates/router/reference.cu", shape_defines(shape)};
  const auto add = [&](const char* entry, std::int64_t threads) -> Launch& {
    Launch& launch = plan.launches.emplace_back();
    launch.entry = entry;
    launch.block[0] = kRouterReferenceThreads;
    launch.grid[0] = static_cast<std::uint32_t>(ceil_div(threads, std::int64_t{kRouterReferenceThreads}));
    return launch;
  };
  const auto pointer = [](const char* name) { return Argument{name, Pointer{name}}; };
  const Argument tokens{"tokens", narrow(shape.tokens)}, capacity{"capacity", narrow(shape.slots_of_expert())},
      map = pointer_if(shape.mapped, "expert_map"), ids = pointer("ids");
  add("router_reference", shape.tokens).arguments = {pointer("logits"),
                                                     pointer_if(shape.bias, "bias"),
                                                     pointer_if(shape.counted, "token_count"),
                                                     ids,
                                                     pointer("weights"),
                                                     {"logits_row", call.integers[kLogitsRow]},
                                                     tokens,
                                                     {"scale", static_cast<float>(call.reals[kRouterScale])}};
  if (shape.has_plan() || shape.has_ranks())
    add("router_reference_counts", shape.experts).arguments = {ids, map, pointer("counts"), tokens, capacity};
  if (shape.has_ranks())
    add("router_reference_ranks", shape.ranks).arguments = {ids, pointer("tokens_per_rank"), pointer("in_rank"),
                                                            tokens};
  if (!shape.has_plan()) return plan;
  const char* const name = shape.grouping();
  const Argument offsets = pointer_if(shape.segment == 0, "offsets"), sorted = pointer("sorted"),
                 grouping{"grouping", name != nullptr ? Pointer{name} : Pointer{}};
  add("router_reference_offsets", 1).arguments = {pointer("counts"), offsets, sorted,
                                                  grouping,          tokens,  {"places", narrow(shape.places())}};
  add("router_reference_places", shape.experts).arguments = {
      ids, map, offsets, sorted, pointer("inverse"), grouping, pointer_if(shape.dropped, "dropped"), tokens, capacity};
  return plan;
}

}  // namespace moetune
