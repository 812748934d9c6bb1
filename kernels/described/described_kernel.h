// A Kernel made of a description, which is all that it knows. As immutable and thread-safe as any.
#pragma once

#include <memory>

#include "kernels/described/description.h"
#include "kernels/kernel.h"

namespace moetune {

// Throws BadInput for a description whose expressions take names for numbers.
std::unique_ptr<const Kernel> described_kernel(Description description);

}  // namespace moetune
