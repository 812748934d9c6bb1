// route_plan as a server calls it: its tensors, their shapes, and its place in a dispatch table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/moe/route_plan_problem.h"

namespace moetune {

// Tensors, in the order of the C interface: ids [tokens, top_k]; expert_map [any number]; token_count [1]; counts
// [experts]; offsets [experts + 1]; sorted [places]; inverse [tokens, top_k]; block_experts [places / align];
// row_experts [places]; ends [experts]; dropped [tokens, top_k]. The axis of its table is the number of tokens.
std::unique_ptr<const FamilyInterface> route_plan_family(const RoutePlanShape& shape);

}  // namespace moetune
