#include "kernels/decode_attention/choice.h"

#include <algorithm>
#include <stdexcept>

#include "base/integers.h"

namespace moetune {
namespace {

std::string math_macro(const Config& config) {
  if (config.is("math", "swap")) return "MATH_SWAP";
  if (config.is("math", "wgmma64")) return "MATH_WGMMA64";
  if (config.is("math", "wgmma_swap")) return "MATH_WGMMA_SWAP";
  if (config.is("math", "mma16")) return "MATH_MMA16";
  throw std::logic_error("decode_attention has no math '" + config.at("math").text() + "'");
}

// Extra shared memory that keeps the next launch's blocks from becoming resident early. In a one-wave grid
// each block prefetches for its successor as it ends; successors already resident would prefetch at once,
// while memory is still busy (measured: 32.6 instead of 31.1 us at batch 8, context 4096).
std::int64_t padding_bytes(const DecodeChoice& choice, const DecodeShape& shape, const DeviceLimits& limits,
                           std::int64_t used) {
  const std::int64_t blocks = shape.batch * shape.kv_heads * choice.head_blocks * choice.splits;
  if (choice.ahead == 0 || 2 * blocks <= limits.sm_count) return 0;
  const std::int64_t resident = ceil_div(blocks, limits.sm_count);
  if (resident * (used + kReservedShared) > limits.shared_per_sm) return 0;
  const std::int64_t least = limits.shared_per_sm / (resident + 1) - kReservedShared + 16;
  return std::max<std::int64_t>(0, least / 16 * 16 - used);
}

// Behind shared_bytes(): the inbox in which a cluster's blocks get each other's partial results
// (templates/decode_attention/inbox.cuh).
std::int64_t inbox_bytes(const DecodeChoice& choice, const DecodeShape& shape) {
  return choice.cluster ? 5 * choice.rows * shape.head_dim + 336 : 0;
}

}  // namespace

DecodeChoice::DecodeChoice(const Config& config, const DecodeShape& shape, const DeviceLimits& limits)
    : tma(config.is("body", "tma")),
      math(math_macro(config)),
      exchanges(config.is("math", "wgmma_swap")),
      persistent(config.is("schedule", "persistent")),
      tile(config.number("tile")),
      stages(config.number("stages")),
      warps(config.number("warps")),
      producers(config.number("producers")),
      workers(exchanges || config.is("math", "wgmma64") ? warps / 4 : warps),
      row_tiles(config.number("row_tiles")),
      splits(config.number("splits")),
      ahead(config.number("ahead")),
      residents(config.number("residents")),
      query_in_registers(config.is("query", "registers")),
      last_cta(config.is("combine", "last_cta")),
      cluster(config.is("combine", "cluster")),
      evict_first(config.is("l2", "evict_first")),
      rows(std::min(shape.packed_rows(), 16 * row_tiles)),
      head_blocks(ceil_div(shape.packed_rows(), rows)),
      box_tokens(shape.paged() ? std::min(tile, shape.page) : tile),
      blocks(limits.sm_count * residents) {}

std::int64_t DecodeChoice::shared_bytes(const DecodeShape& shape) const {
  const std::int64_t row_bytes = ceil_div(shape.head_dim * dtype_bytes(shape.kv_dtype()), 128) * 128;
  const std::int64_t ring = 2 * stages * tile * row_bytes;
  const std::int64_t merge = workers * rows * (shape.head_dim + 10) * 4;
  const std::int64_t query = (persistent ? 3 : 1) * 16 * row_tiles * shape.head_dim * 2;
  const std::int64_t columns = rows <= 8 ? 8 : 16 * row_tiles;
  const std::int64_t exchange = exchanges ? (4 * tile + 16 * workers) * columns : 0;
  const std::int64_t barriers = tma ? 4 * stages * 8 : 0;
  const std::int64_t both = persistent ? ring + merge : std::max(ring, merge);
  return ceil_div(both, 1024) * 1024 + query + exchange + barriers + 16 + (persistent ? 256 : 0);
}

std::int64_t DecodeChoice::dynamic_shared(const DecodeShape& shape, const DeviceLimits& limits) const {
  const std::int64_t used = shared_bytes(shape) + inbox_bytes(*this, shape);
  return used + padding_bytes(*this, shape, limits, used);
}

std::int64_t DecodeChoice::partial_rows(const DecodeShape& shape) const {
  if (persistent) return 2 * blocks * rows;
  return splits == 1 || cluster ? 0 : shape.query_rows() * splits;
}

std::int64_t DecodeChoice::counters(const DecodeShape& shape) const {
  return persistent ? blocks : shape.batch * shape.kv_heads * head_blocks;
}

}  // namespace moetune
