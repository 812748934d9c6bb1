// moe_experts as a server calls it: its tensors, their shapes, and its place in a dispatch table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/moe/moe_experts_problem.h"

namespace moetune {

// Tensors, in the order of the C interface: x [tokens, hidden], whose rows may lie apart; sorted i32 [places], offsets
// i32 [experts + 1] and inverse i32 [tokens, top_k] as the router writes them; weights f32 [tokens, top_k]; w_gate_up
// [experts, 2 * intermediate, hidden], the rows of gate before those of up; w_down [experts, hidden, intermediate]; out
// [tokens, hidden]. Rows of all but the lists may lie apart. No options. The axis of its table is the number of tokens.
std::unique_ptr<const FamilyInterface> moe_experts_family(const MoeExpertsShape& shape);

}  // namespace moetune
