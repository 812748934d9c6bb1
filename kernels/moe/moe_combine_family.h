// moe_combine as a server calls it: its tensors, their shapes, and its place in a dispatch table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/moe/moe_problem.h"

namespace moetune {

// Tensors, in the order of the C interface: rows bf16 [places, hidden]; inverse i32 [tokens, top_k], places or -1;
// weights f32 [tokens, top_k]; out bf16 [tokens, hidden], whose rows may lie apart. No options. The axis of its table
// is the number of tokens.
std::unique_ptr<const FamilyInterface> moe_combine_family(const MoeShape& shape);

}  // namespace moetune
