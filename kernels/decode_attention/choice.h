// A decode_attention configuration by name, with what follows from it for one family: blocks, threads, shared memory.
// Plain values; immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/decode_attention/problem.h"
#include "kernels/limits.h"
#include "search/assignment.h"

namespace moetune {

struct DecodeChoice {
  DecodeChoice(const Config& config, const DecodeShape& shape, const DeviceLimits& limits);

  std::int64_t threads() const { return 32 * (warps + producers); }  // of a block
  // Mirrors the layout in templates/decode_attention/shape.cuh, which asserts that it agrees.
  std::int64_t shared_bytes(const DecodeShape& shape) const;
  // Bytes of a block at launch: the above, a cluster's inbox for partial results, and padding.
  std::int64_t dynamic_shared(const DecodeShape& shape, const DeviceLimits& limits) const;
  // Partial results of a row's head_dim values, over the whole launch.
  std::int64_t partial_rows(const DecodeShape& shape) const;
  // The number of counters by which a block sees that it is the last to finish
  // (templates/decode_attention/spans.cuh).
  std::int64_t counters(const DecodeShape& shape) const;

  bool tma;
  std::string math;  // MATH, as templates/decode_attention/shape.cuh names it
  bool exchanges;    // the warps of a worker share P through shared memory
  bool persistent;
  std::int64_t tile, stages, warps, producers;
  std::int64_t workers;  // warps, or warpgroups, that compute on their own
  std::int64_t row_tiles, splits, ahead;
  std::int64_t residents;  // blocks an SM of a persistent grid; else 0
  bool query_in_registers, last_cta, cluster, evict_first;
  std::int64_t rows;         // packed rows of a block
  std::int64_t head_blocks;  // blocks over the rows that share a KV head
  std::int64_t box_tokens;   // tokens that one tensor copy brings
  std::int64_t blocks;       // of a persistent grid; else 0
};

}  // namespace moetune
