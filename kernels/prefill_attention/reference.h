// prefill_attention in float64 on the CPU. A pure function; thread-safe.
#pragma once

#include "kernels/kernel.h"
#include "kernels/prefill_attention/call.h"

namespace moetune {

// o, NaN between and behind rows, and lse if wanted, NaN behind the last sequence's.
HostTensors prefill_attention_on_cpu(const PrefillShape& shape, const PrefillCall& call,
                                     const HostTensors& inputs);

}  // namespace moetune
