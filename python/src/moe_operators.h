// torch.ops.moetune.moe_dispatch, moe_dispatch_e4m3 and moe_combine.
#pragma once

#include "operator.h"

namespace moetune::python {

// The order of Given::integers. Choices count as their problems' dimensions list them.
enum DispatchInteger { kScaleOf, kScaleLayout, kPadding };

inline constexpr const char* kScalesOf[] = {"group", "token"};
inline constexpr const char* kScaleLayouts[] = {"row", "column"};
inline constexpr const char* kPaddings[] = {"zeros", "none"};

const Operator& dispatch_operator();
const Operator& dispatch_e4m3_operator();  // with scales
const Operator& combine_operator();

}  // namespace moetune::python
