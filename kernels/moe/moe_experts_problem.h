// A moe_experts problem as numbers. Plain values; immutable once made; thread-safe.
#pragma once

#include "kernels/moe/moe_problem.h"

namespace moetune {

struct MoeExpertsShape : MoeShape {
  explicit MoeExpertsShape(const Problem& problem);

  // The same family with so many tokens.
  MoeExpertsShape at(const Extents& extents) const;

  std::int64_t experts() const { return sizes.experts; }

  std::int64_t intermediate;
  DType dtype;
};

// The fields of a call, in their order; the first two are those of MoeCallInteger, of x.
enum MoeExpertsInteger {
  kExpertsOutRow = kMoePlaces + 1,
  kExpertsUpRow,
  kExpertsUpExpert,
  kExpertsDownRow,
  kExpertsDownExpert,
};

const ProblemSchema& moe_experts_schema();
void check_moe_experts(const Problem& problem);                               // throws BadInput
void check_moe_experts_call(const MoeExpertsShape& shape, const Call& call);  // throws BadInput

}  // namespace moetune
