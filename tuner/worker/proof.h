// Whether a candidate that would lead is what it seems. Its inputs are changed where they lie, with its module loaded
// and its outputs as they are, and it must be right on them, twice in a row and within graphs, and about as fast as it
// was: one that kept results by address, by content or by what its outputs hold is wrong or slow.
//
// For the worker; one thread. Errors: cuda::CudaError.
#pragma once

#include "tuner/worker/benchmark.h"
#include "tuner/worker/tensors.h"

namespace moetune {

// `measured` is the candidate's time under `timing`. Leaves the usual inputs in use unless it throws.
Validation prove(LoadedPlan& plan, Tensors& tensors, Benchmark& benchmark, Timing timing, const Measurement& measured);

}  // namespace moetune
