// A router problem as numbers: what is compiled in, and the sizes that follow from the number of tokens.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/kernel.h"
#include "kernels/moe/routing.h"
#include "kernels/problem.h"

namespace moetune {

struct RouterShape {
  enum class Score { softmax, topk_softmax, sigmoid, sqrt_softplus };
  enum class Outputs { plan, weights, ranks };
  enum class Layout { blocks, rows, ends, masked };

  explicit RouterShape(const Problem& problem);

  // The same family with so many tokens.
  RouterShape at(const Extents& extents) const;

  RoutingSizes sizes() const { return {tokens, experts, top_k, align, capacity, segment}; }
  std::int64_t slots() const { return sizes().slots(); }
  std::int64_t places() const { return sizes().places(); }
  std::int64_t slots_of_expert() const { return sizes().slots_of_expert(); }
  // A shift for the logits of each expert that makes the load as skewed as the problem says.
  std::vector<float> load_shifts() const;

  // Inputs for tests: every other expert is on this GPU, and three quarters of the tokens are routed.
  std::vector<std::int32_t> sample_map() const;
  std::int64_t sample_count() const { return counted ? tokens - tokens / 4 : tokens; }

  bool has_plan() const { return outputs == Outputs::plan; }
  bool has_ranks() const { return outputs == Outputs::ranks; }
  bool has_layout(Layout one) const { return has_plan() && layout == one; }
  // The output that tells a grouped GEMM whose places are whose; nullptr if none does.
  const char* grouping() const;
  std::int64_t grouping_elements() const;

  std::int64_t tokens, experts, top_k, groups, groups_kept, align, capacity;
  std::int64_t segment;  // places of every expert's segment; 0 for as many as it needs
  std::int64_t ranks;    // over which the experts are spread
  Score score;
  Outputs outputs;
  Layout layout;
  DType dtype, ids;
  bool bias, renormalize;
  bool dropped;  // a mask of the slots that an expert had no room for
  bool mapped;   // experts have local ids, or none on this GPU
  bool counted;  // how many tokens are routed stands in device memory
  std::string skew;
};

const ProblemSchema& router_schema();
const std::vector<Preset>& router_presets();
void check_router(const Problem& problem);  // throws BadInput
std::string_view router_score_name(RouterShape::Score score);
std::string_view router_layout_name(RouterShape::Layout layout);

}  // namespace moetune
