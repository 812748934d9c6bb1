// Whether a stored launch plan can be launched, and is its kernel's. For soundness/ alone; pure functions.
#pragma once

#include <string>

#include "cache/cache.h"
#include "kernels/kernel.h"
#include "soundness/stored_key.h"

namespace moetune {

// Checks the plan of a stored launch, whatever kernel it is of. It is wrong if it cannot be read, launches nothing,
// has more arguments than can be bound, launches that its GPU cannot hold, or a kernel that its cubin does not have;
// with a configuration also if its kernel plans another for that, or passes other parameters than the cubin takes. ""
// for a sound plan, one of another version, and one that the kernel cannot make again.
std::string wrong_plan(const StoredLaunch& launch, const HardwareKey& hardware, const KnownWorkload& known,
                       const Config* config);

}  // namespace moetune
