// How a cubin expects to be called: the digest of a plan's entries, parameters and memory layout. Two plans
// with equal digests can launch each other's cubins, whatever their sources were.
//
// It does not depend on extents, calls or the device. A pure function; thread-safe.
#pragma once

#include <string>

#include "kernels/plan.h"

namespace moetune {

std::string interface_digest(const CompileUnit& unit, const LaunchPlan& plan);

}  // namespace moetune
