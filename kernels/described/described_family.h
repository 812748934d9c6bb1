// A described kernel's family as its callers in a server see it: free dimensions come from the shapes of the tensors,
// which are contiguous, or from options; fields of the call come from options.
//
// Immutable; thread-safe.
#pragma once

#include <memory>

#include "kernels/described/bound_formulas.h"
#include "kernels/described/description.h"

namespace moetune {

// `problem` is any of the family's.
std::unique_ptr<const FamilyInterface> described_family(std::shared_ptr<const Description> description,
                                                        const Problem& problem);

}  // namespace moetune
