// A Kernel made of a description, which is all that it knows. As immutable and thread-safe as any.
//
// It has no answer on the CPU (reference_on_cpu throws std::logic_error): its reference is judged by whoever wrote it.
#pragma once

#include <memory>

#include "kernels/described/description.h"
#include "kernels/kernel.h"

namespace moetune {

// Throws BadInput for a description whose expressions take names for numbers.
std::unique_ptr<const Kernel> described_kernel(Description description);

}  // namespace moetune
