// The router as a server calls it: its tensors, their shapes, and its place in a dispatch table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/moe/router_problem.h"

namespace moetune {

// Tensors, in the order of the C interface: logits [tokens, experts], whose rows may lie apart; bias
// [experts]; ids and weights [tokens, top_k]; counts [experts]; offsets [experts + 1]; sorted [places];
// inverse [tokens, top_k]; block_experts [places / align]; expert_map [experts]; token_count [1]; row_experts
// [places]; ends [experts]; dropped [tokens, top_k]; tokens_per_rank [ranks]; in_rank [tokens, ranks]. Option:
// scale=NUMBER. The axis of its table is the number of tokens.
std::unique_ptr<const FamilyInterface> router_family(const RouterShape& shape);

// Throws BadInput for rows of logits that overlap, or that vectors cannot be read from.
void check_router_call(const RouterShape& shape, const Call& call);

}  // namespace moetune
