// torch.ops.moetune.route, and its kin for other consumers of a routing.
#pragma once

#include "operator.h"

namespace moetune::python {

// The order of Given::integers. Choices count as their problems' dimensions list them.
enum RouteInteger {
  kTopK,
  kScore,
  kGroups,
  kGroupsKept,
  kRenormalize,
  kAlign,
  kCapacity,
  kSegment,
  kRanks,
  kIdsType
};

inline constexpr const char* kScores[] = {"softmax", "topk_softmax", "sigmoid", "sqrt_softplus"};
inline constexpr const char* kIdsTypes[] = {"i32", "i64"};

const Operator& route_operator();          // everything, with the expert of each block of places
const Operator& route_rows_operator();     // with the expert of each place
const Operator& route_ends_operator();     // with the end of each segment
const Operator& route_masked_operator();   // in equal segments
const Operator& route_ranks_operator();    // which tokens go to which rank, and no permutation
const Operator& route_weights_operator();  // ids and weights alone

}  // namespace moetune::python
