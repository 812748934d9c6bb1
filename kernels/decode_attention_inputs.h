// The tensors of a decode_attention problem. Everything that a right kernel never uses is NaN: pages nobody
// owns, and tokens at or past a sequence's length. Page tables are shuffled, and garbage follows their used
// entries. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/decode_attention_problem.h"

namespace moetune {

// What page-table entries past a sequence's last page hold: an id that no allocation has.
inline constexpr std::int32_t kGarbagePage = 0x7fffffff;

// q, k, v, page_table (where paged), lengths; then o.
std::vector<Buffer> decode_attention_buffers(const DecodeShape& shape, std::uint64_t seed);

}  // namespace moetune
