#include "kernels/moe/route_plan_problem.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostMapped = std::int64_t{1} << 20;

[[noreturn]] void refuse_plan(const std::string& rule) { throw BadInput("route_plan: " + rule); }

RoutePlanShape::Layout layout_of(const Problem& problem) {
  using enum RoutePlanShape::Layout;
  for (const RoutePlanShape::Layout layout : {blocks, rows, ends}) {
    if (problem.is("layout", router_layout_name(layout))) return layout;
  }
  return masked;
}

}  // namespace

RoutePlanShape::RoutePlanShape(const Problem& problem)
    : tokens(problem["tokens"]),
      experts(problem["experts"]),
      top_k(problem["top_k"]),
      align(problem["align"]),
      segment(problem["segment"]),
      layout(layout_of(problem)),
      ids(problem.is("ids", "i64") ? DType::i64 : DType::i32),
      dropped(problem.is("dropped", "mask")),
      mapped(problem.is("map", "local")),
      counted(problem.is("count", "device")),
      skew(problem.dims.at("skew").text()) {}

RoutePlanShape RoutePlanShape::at(const Extents& extents) const {
  RoutePlanShape other = *this;
  other.tokens = extents[0];
  return other;
}

std::vector<std::int32_t> RoutePlanShape::sample_ids(std::int64_t map_size, std::uint64_t seed) const {
  RoutingSizes all = sizes();
  all.experts = std::max(mapped ? map_size : experts, top_k);  // enough for distinct ones
  return draw_experts(all, skew, seed);
}

std::vector<std::int32_t> RoutePlanShape::sample_map(std::int64_t map_size) const {
  std::vector<std::int32_t> map(static_cast<std::size_t>(map_size), -1);
  for (std::int64_t e = 0; e < map_size && e / 2 < experts; e += 2)
    map[static_cast<std::size_t>(e)] = static_cast<std::int32_t>(e / 2);
  return map;
}

const char* RoutePlanShape::grouping() const {
  static constexpr const char* kNames[] = {"block_experts", "row_experts", "ends", nullptr};
  return kNames[static_cast<std::size_t>(layout)];
}

std::int64_t RoutePlanShape::grouping_elements() const {
  return layout == Layout::blocks ? places() / align : layout == Layout::rows ? places() : experts;
}

const ProblemSchema& route_plan_schema() {
  static const ProblemSchema schema = {
      integer_dimension("tokens", "tokens whose experts are given", 64, 1, kMostTokens),
      integer_dimension("experts", "experts that have a segment: those of this GPU", 256, 1, 1024),
      integer_dimension("top_k", "experts of each token", 8, 1, 32),
      named_dimension("ids", "type of the ids", {"i32", "i64"}),
      named_dimension("map",
                      "local: an expert map gives the segments of the ids, or -1 for experts elsewhere; none: "
                      "ids are segments",
                      {"none", "local"}),
      named_dimension("layout",
                      "what tells a grouped GEMM whose places are whose. blocks: the expert of each block of places; "
                      "rows: the expert of each place; ends: where each segment ends; masked: nothing, all segments "
                      "have as many places",
                      {"blocks", "rows", "ends", "masked"}),
      integer_dimension("align", "each expert's segment begins at a multiple of it: a power of two", 16, 1, 256),
      integer_dimension("segment", "of layout=masked: places of every expert's segment", 0, 0, 65536),
      named_dimension("dropped", "mask: a mask of the slots that an expert had no room for", {"none", "mask"}),
      named_dimension("count", "device: how many of the tokens are placed is read on the device", {"host", "device"}),
      named_dimension("skew", "how the inputs load the experts: evenly, by Zipf's law, or one of them with every token",
                      {"uniform", "zipf", "one"}),
  };
  return schema;
}

const std::vector<Preset>& route_plan_presets() {
  static const std::vector<Preset> presets = {
      {"gpt-oss-20b", "gpt-oss-20b", {{"experts", "32"}, {"top_k", "4"}}},
      {"gpt-oss-120b", "gpt-oss-120b", {{"experts", "128"}, {"top_k", "4"}}},
      {"qwen3-30b-a3b", "Qwen3-30B-A3B", {{"experts", "128"}, {"top_k", "8"}}},
      {"qwen3-235b-a22b", "Qwen3-235B-A22B", {{"experts", "128"}, {"top_k", "8"}}},
      {"deepseek-v3", "DeepSeek-V3 and R1", {{"experts", "256"}, {"top_k", "8"}}},
      {"deepseek-v3-ep8",
       "DeepSeek-V3 and R1, an eighth of the experts",
       {{"experts", "32"}, {"top_k", "8"}, {"map", "local"}}},
      {"kimi-k2", "Kimi-K2", {{"experts", "384"}, {"top_k", "8"}}},
      {"mixtral-8x7b", "Mixtral 8x7B", {{"experts", "8"}, {"top_k", "2"}}},
  };
  return presets;
}

void check_route_plan(const Problem& problem) {
  const RoutePlanShape shape(problem);
  if ((shape.layout == RoutePlanShape::Layout::masked) != (shape.segment > 0))
    refuse_plan("layout=masked and segment=PLACES go together");
  if (shape.dropped && shape.segment == 0)
    refuse_plan("dropped=mask needs a segment, without which nothing is dropped");
  if ((shape.align & (shape.align - 1)) != 0)
    refuse_plan("align=" + std::to_string(shape.align) + " is no power of two");
}

void check_route_plan_call(const RoutePlanShape& shape, const Call& call) {
  const std::int64_t size = call.integers[kMapSize];
  if (shape.mapped ? size < 1 || size > kMostMapped : size != 0)
    refuse_plan("map_size=" + std::to_string(size) + " must be " +
                (shape.mapped ? "from 1 to " + std::to_string(kMostMapped) : "0 without a map"));
}

}  // namespace moetune
