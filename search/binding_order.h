// In which order to bind the parameters of a space, so that the tree of partial assignments stays small.
// Stateless and deterministic.
#pragma once

#include <cstddef>
#include <vector>

#include "search/bound_space.h"

namespace moetune {

// All parameters, once each. `domains` holds the positions that are left of each domain, none of them empty.
std::vector<std::size_t> choose_binding_order(const BoundSpace& space,
                                              const std::vector<std::vector<Position>>& domains);

}  // namespace moetune
