// A router problem as numbers: what is compiled in, and the sizes that follow from the number of tokens.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/kernel.h"
#include "kernels/problem.h"
#include "kernels/routing.h"

namespace moetune {

struct RouterShape {
  enum class Score { softmax, topk_softmax, sigmoid, sqrt_softplus };

  explicit RouterShape(const Problem& problem);

  // The same family with so many tokens.
  RouterShape at(const Extents& extents) const;

  RoutingSizes sizes() const { return {tokens, experts, top_k, align, capacity}; }
  std::int64_t slots() const { return sizes().slots(); }
  std::int64_t places() const { return sizes().places(); }
  std::int64_t slots_of_expert() const { return sizes().slots_of_expert(); }
  // What is added to the logits of each expert, so that the load is as the problem says.
  std::vector<float> load_shifts() const;

  // Inputs for tests: every other expert is on this GPU, and three quarters of the tokens are routed.
  std::vector<std::int32_t> sample_map() const;
  std::int64_t sample_count() const { return counted ? tokens - tokens / 4 : tokens; }

  std::int64_t tokens, experts, top_k, groups, groups_kept, align, capacity;
  Score score;
  DType dtype;
  bool bias, renormalize, plan;
  bool mapped;   // experts have local ids, or none on this GPU
  bool counted;  // how many tokens are routed stands in device memory
  std::string skew;
};

const ProblemSchema& router_schema();
const std::vector<Preset>& router_presets();
void check_router(const Problem& problem);  // throws BadInput
std::string_view router_score_name(RouterShape::Score score);

}  // namespace moetune
