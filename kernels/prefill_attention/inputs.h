// The tensors of a prefill_attention problem. Everything that a right kernel never uses is NaN: pages nobody owns,
// tokens that no query sees, rows behind the last sequence's. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/inputs.h"
#include "kernels/prefill_attention/call.h"

namespace moetune {

// q, k, v, q_offsets, kv_offsets or (where paged) kv_lengths and page_table, sinks (where learned); then o and lse
// (where wanted). With a v_offset, k holds the values too. Throws BadInput if the call has too little room.
std::vector<Buffer> prefill_attention_buffers(const PrefillShape& shape, const PrefillCall& call, std::uint64_t seed);

}  // namespace moetune
