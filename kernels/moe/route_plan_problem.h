// A route_plan problem as numbers: what is compiled in, and the sizes that follow from the number of tokens.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/moe/router_problem.h"
#include "kernels/moe/routing.h"

namespace moetune {

// The fields of its call, in their order: entries of the expert map, 0 without one.
enum RoutePlanInteger { kMapSize };

struct RoutePlanShape {
  using Layout = RouterShape::Layout;

  explicit RoutePlanShape(const Problem& problem);

  // The same family with so many tokens.
  RoutePlanShape at(const Extents& extents) const;

  // Sizes of a routing among the experts that have segments here.
  RoutingSizes sizes() const {
    return {.tokens = tokens, .experts = experts, .top_k = top_k, .align = align, .segment = segment};
  }
  std::int64_t slots() const { return sizes().slots(); }
  std::int64_t places() const { return sizes().places(); }

  // Inputs for tests: ids of experts that a router may choose from, distinct within a token, and a map of `map_size`
  // experts of which every other one is on this GPU.
  std::vector<std::int32_t> sample_ids(std::int64_t map_size, std::uint64_t seed) const;
  std::vector<std::int32_t> sample_map(std::int64_t map_size) const;
  std::int64_t sample_map_size() const { return mapped ? 2 * experts : 0; }
  std::int64_t sample_count() const { return counted ? tokens - tokens / 4 : tokens; }

  // The output that tells a grouped GEMM whose places are whose; nullptr if none does.
  const char* grouping() const;
  std::int64_t grouping_elements() const;

  std::int64_t tokens, experts, top_k, align;
  std::int64_t segment;  // places of every expert's segment; 0 for as many as it needs
  Layout layout;
  DType ids;
  bool dropped;  // a mask of the slots that an expert had no room for
  bool mapped;   // an expert map gives the segments
  bool counted;  // how many tokens are placed stands in device memory
  std::string skew;
};

const ProblemSchema& route_plan_schema();
const std::vector<Preset>& route_plan_presets();
void check_route_plan(const Problem& problem);                              // throws BadInput
void check_route_plan_call(const RoutePlanShape& shape, const Call& call);  // throws BadInput

}  // namespace moetune
