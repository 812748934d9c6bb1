// moe_dispatch as a server calls it: its tensors, their shapes, and its place in a dispatch table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/moe/moe_dispatch_problem.h"

namespace moetune {

// Tensors, in the order of the C interface: x bf16 [tokens, hidden], whose rows may lie apart; sorted i32 [places] and
// inverse i32 [tokens, top_k] as the router writes them; rows [places, hidden] in bf16 or e4m3; scales f32 [places,
// groups], or [groups, places rounded up to a multiple of 4]. No options. The axis of its table is the number of
// tokens.
std::unique_ptr<const FamilyInterface> moe_dispatch_family(const MoeDispatchShape& shape);

}  // namespace moetune
