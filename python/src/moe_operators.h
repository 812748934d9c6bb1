// torch.ops.moetune.route, route_weights, moe_dispatch, moe_dispatch_e4m3 and moe_combine.
#pragma once

#include "operator.h"

namespace moetune::python {

// The order of Given::integers. Choices count as their problems' dimensions list them.
enum RouteInteger { kTopK, kScore, kGroups, kGroupsKept, kRenormalize, kAlign, kCapacity };
enum DispatchInteger { kScaleOf, kScaleLayout, kPadding };

inline constexpr const char* kScores[] = {"softmax", "topk_softmax", "sigmoid", "sqrt_softplus"};
inline constexpr const char* kScalesOf[] = {"group", "token"};
inline constexpr const char* kScaleLayouts[] = {"row", "column"};
inline constexpr const char* kPaddings[] = {"zeros", "none"};

const Operator& route_operator();          // everything
const Operator& route_weights_operator();  // ids and weights alone
const Operator& dispatch_operator();
const Operator& dispatch_e4m3_operator();  // with scales
const Operator& combine_operator();

}  // namespace moetune::python
