// How the work of a decode_attention launch falls to its blocks. Pure functions; thread-safe.
#pragma once

#include <vector>

#include "kernels/block_loads.h"
#include "kernels/decode_attention_choice.h"

namespace moetune {

// For each of a few orders of the sequences; for one if lengths are equal or the grid is persistent.
std::vector<BlockLoads> decode_attention_loads(const DecodeChoice& choice, const DecodeShape& shape,
                                               const DeviceLimits& limits);

}  // namespace moetune
