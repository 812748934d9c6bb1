#include "kernels/decode_attention_loads.h"

#include <algorithm>
#include <random>

#include "base/integers.h"
#include "kernels/shuffle.h"

namespace moetune {
namespace {

// Orders of sequences of different lengths; of many sequences one is like another.
constexpr int kOrders = 4;
constexpr std::int64_t kManySequences = 1024;

// From where the first tile begins (templates/decode_attention/arguments.cuh, first_tile_token).
std::int64_t tiles_of(std::int64_t length, const DecodeChoice& choice, const DecodeShape& shape) {
  const std::int64_t alignment = shape.paged() ? std::min(choice.tile, shape.page) : 1;
  return ceil_div(length - shape.first_visible(length) / alignment * alignment, choice.tile);
}

// Spans of all tiles, which differ by one tile at most (templates/decode_attention/spans.cuh).
BlockLoads loads_of_spans(const DecodeChoice& choice, const DecodeShape& shape, double tile_bytes) {
  std::int64_t tiles = 0;
  for (const std::int64_t length : shape.lengths())
    tiles += shape.kv_heads * std::max<std::int64_t>(1, tiles_of(length, choice, shape));
  const std::int64_t least = tiles / choice.blocks, longer = tiles % choice.blocks;
  BlockLoads loads{.runs = {}, .resident = choice.residents};
  loads.add(longer, static_cast<double>(least + 1) * tile_bytes);
  loads.add(choice.blocks - longer, static_cast<double>(least) * tile_bytes);
  return loads;
}

// A grid's blocks that an SM holds, but for its registers, of which only the compiler knows.
std::int64_t resident_blocks(const DecodeChoice& choice, const DecodeShape& shape,
                             const DeviceLimits& limits) {
  const std::int64_t by_shared =
      limits.shared_per_sm / (choice.dynamic_shared(shape, limits) + kReservedShared);
  return std::max<std::int64_t>(1, std::min(by_shared, limits.threads_per_sm / choice.threads()));
}

// The grid's x counts heads, y splits, z sequences; split s of a sequence takes its tiles s, s + splits, ...
BlockLoads loads_of_grid(const std::vector<std::int64_t>& lengths, const DecodeChoice& choice,
                         const DecodeShape& shape, double tile_bytes) {
  const std::int64_t heads = shape.kv_heads * choice.head_blocks;
  BlockLoads loads;
  for (const std::int64_t length : lengths) {
    const std::int64_t tiles = tiles_of(length, choice, shape);
    const std::int64_t least = tiles / choice.splits, longer = tiles % choice.splits;
    loads.add(heads * longer, static_cast<double>(least + 1) * tile_bytes);
    loads.add(heads * (choice.splits - longer), static_cast<double>(least) * tile_bytes);
  }
  return loads;
}

}  // namespace

std::vector<BlockLoads> decode_attention_loads(const DecodeChoice& choice, const DecodeShape& shape,
                                               const DeviceLimits& limits) {
  const auto tile_bytes =
      static_cast<double>(2 * choice.tile * shape.head_dim * dtype_bytes(shape.kv_dtype()));
  if (choice.persistent) return {loads_of_spans(choice, shape, tile_bytes)};
  std::vector<std::int64_t> lengths = shape.lengths();
  std::vector<BlockLoads> loads;
  std::mt19937_64 random(0x6f7264657273);  // any constant: orders are the same for every configuration
  const int orders = shape.ragged && shape.batch < kManySequences ? kOrders : 1;
  for (int i = 0; i < orders; ++i) {
    if (shape.ragged) shuffle(lengths, random);
    loads.push_back(loads_of_grid(lengths, choice, shape, tile_bytes));
    loads.back().resident = resident_blocks(choice, shape, limits);
  }
  return loads;
}

}  // namespace moetune
