// What must hold of a stored winner whatever its digest says: a digest finds damage, not authors.
//
// For one thread, as StoredSpaces is. Throws BadInput if a space file is broken.
#pragma once

#include <string>

#include "cache/cache.h"
#include "jobs/stored_space.h"
#include "tuner/ceilings.h"

namespace moetune {

// Why the winner cannot be true, "" if nothing speaks against it: a time below what its GPU allows, by `ceilings` or
// without them by its key (tuner/plausibility.h), a plan that launches
// nothing or has more arguments than can be bound, launches that the GPU of the key cannot hold, and for today's
// sources and version a plan that the kernel does not make of the configuration. A plan that cannot be read is not
// judged.
std::string untrue_winner(const WorkloadKey& key, const WinnerRecord& winner, StoredSpaces& spaces,
                          const Ceilings& ceilings = {});

}  // namespace moetune
