// A moe_dispatch problem as numbers. Plain values; immutable once made; thread-safe.
#pragma once

#include "kernels/moe/moe_problem.h"

namespace moetune {

struct MoeDispatchShape : MoeShape {
  enum class Scale { none, group, token };

  explicit MoeDispatchShape(const Problem& problem);

  // The same family with so many tokens.
  MoeDispatchShape at(const Extents& extents) const;

  bool narrow() const { return scale != Scale::none; }
  DType dtype() const { return narrow() ? DType::e4m3 : DType::bf16; }
  // Values that share a scale; the last group may have fewer. In bf16, values that one thread of the reference takes.
  std::int64_t group() const { return scale == Scale::token ? hidden : 128; }
  std::int64_t groups() const { return (hidden + group() - 1) / group(); }
  std::int64_t scale_elements(std::int64_t places) const;
  std::int64_t scale_index(std::int64_t place, std::int64_t group, std::int64_t places) const;

  Scale scale;
  bool by_columns;    // scales are [groups, padded places], not [places, groups]
  bool zero_padding;  // places without a token are written
};

const ProblemSchema& moe_dispatch_schema();
void check_moe_dispatch(const Problem& problem);                                // throws BadInput
void check_moe_dispatch_call(const MoeDispatchShape& shape, const Call& call);  // throws BadInput
const char* moe_scale_name(MoeDispatchShape::Scale scale);

}  // namespace moetune
