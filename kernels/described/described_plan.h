// From a described program to launches. Pure functions and immutable values; thread-safe.
#pragma once

#include <memory>

#include "kernels/described/bound_formulas.h"
#include "kernels/described/description.h"
#include "kernels/kernel.h"

namespace moetune {

// The unit of a program in a family; `config` null: of the reference.
CompileUnit described_unit(const Description& description, const DescribedProgram& program, const Config* config,
                           const Assignment& problem, const DeviceLimits& limits);

// A launcher of the kernel's program, or without a configuration of the reference's with that value of the macro EXACT.
// Its plans are data that cannot be launched (an empty grid) where an expression has no value or one out of range.
std::unique_ptr<const Launcher> described_launcher(std::shared_ptr<const Description> description, const Config* config,
                                                   const Problem& problem, const DeviceLimits& limits,
                                                   bool exact = false);

}  // namespace moetune
