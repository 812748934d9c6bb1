// The tensors of a decode_attention problem. Everything that a right kernel never uses is NaN: pages nobody
// owns, and tokens before a sequence's window or at or past its length. Page tables are shuffled, and garbage
// surrounds their used entries. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/inputs.h"
#include "kernels/buffer.h"
#include "kernels/decode_attention/call.h"

namespace moetune {

// q, k, v, k_scale and v_scale (where narrow), page_table (where paged), lengths, sinks (where learned); then
// o and lse (where wanted).
// q, o and pages lie as `call` says; between and around them is NaN as well. With a v_offset, k holds the
// values too.
std::vector<Buffer> decode_attention_buffers(const DecodeShape& shape, const DecodeCall& call, std::uint64_t seed);

}  // namespace moetune
