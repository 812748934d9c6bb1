// Whether a stored launch plan can be launched, and is its kernel's. For soundness/ alone; pure functions.
#pragma once

#include <string>

#include "cache/cache.h"
#include "kernels/kernel.h"
#include "soundness/stored_key.h"

namespace moetune {

// Checks the plan of a stored launch, whatever kernel it is of. It is wrong if it cannot be read, launches nothing,
// has more arguments than can be bound, launches that its GPU cannot hold, or a kernel that its cubin does not have.
// "" for a sound plan, and for one of another version.
std::string wrong_plan(const StoredLaunch& launch, const HardwareKey& hardware);

// "" if the kernel plans this for the launch's configuration, and passes what the cubin takes, or if that cannot be
// told.
std::string other_plan(const StoredLaunch& launch, const WorkloadKey& key, const KnownKernel& known);

}  // namespace moetune
