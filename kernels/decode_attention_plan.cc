#include "kernels/decode_attention_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::uint32_t kCombineThreads = 128;
constexpr std::uint32_t kReferenceThreads = 512;
constexpr std::int64_t kReferenceScoreBytes = std::int64_t{4} << 30;  // 256 blocks of the longest context

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }
std::int32_t i32(std::int64_t value) { return static_cast<std::int32_t>(value); }

Argument null_pointer() { return Scalar::of(std::uint64_t{0}); }
Argument optional_pointer(const char* buffer, bool present) {
  return present ? Argument(Pointer{buffer}) : null_pointer();
}
Argument page_table_argument(const DecodeShape& shape) {
  return optional_pointer("page_table", shape.paged());
}

std::string element_type(DType type) {
  if (type == DType::e4m3) return "E4m3";
  return type == DType::f16 ? "Fp16" : "Bf16";
}

// MATH of a configuration, as templates/decode_attention/shape.cuh names it.
std::string math_macro(const Config& config) {
  if (config.is("math", "swap")) return "MATH_SWAP";
  if (config.is("math", "wgmma64")) return "MATH_WGMMA64";
  if (config.is("math", "wgmma_swap")) return "MATH_WGMMA_SWAP";
  if (config.is("math", "vector")) return "MATH_VECTOR";
  if (config.is("math", "mma16")) return "MATH_MMA16";
  throw std::logic_error("decode_attention has no maths of '" + config.at("math").text() + "'");
}

// A configuration by name, with what follows from it for one shape.
struct Choice {
  Choice(const Config& config, const DecodeShape& shape, const DeviceLimits& limits)
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
        query_in_registers(config.is("query", "registers")),
        last_cta(config.is("combine", "last_cta")),
        cluster(config.is("combine", "cluster")),
        evict_first(config.is("l2", "evict_first")),
        rows(std::min(shape.packed_rows(), 16 * row_tiles)),
        head_blocks(ceil_div(shape.packed_rows(), rows)),
        slab_tokens(shape.paged() ? std::min(tile, shape.page) : tile),
        blocks(limits.sm_count * config.number("residents")) {}

  // Mirrors the layout in templates/decode_attention/shape.cuh, which asserts that it agrees.
  std::int64_t shared_bytes(const DecodeShape& shape) const {
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

  // Behind that, where the blocks of a cluster send each other their parts
  // (templates/decode_attention/inbox.cuh).
  std::int64_t inbox_bytes(const DecodeShape& shape) const {
    return cluster ? 5 * rows * shape.head_dim + 336 : 0;
  }

  // Partial results of a row's head_dim values, over the whole launch.
  std::int64_t partial_rows(const DecodeShape& shape) const {
    if (persistent) return 2 * blocks * rows;
    return splits == 1 || cluster ? 0 : shape.query_rows() * splits;
  }

  // What a last block to finish counts to see that it is the last (templates/decode_attention/spans.cuh).
  std::int64_t counters(const DecodeShape& shape) const {
    return persistent ? blocks : shape.batch * shape.kv_heads * head_blocks;
  }

  bool tma;
  std::string math;
  bool exchanges;  // the warps of a worker share P through shared memory
  bool persistent;
  std::int64_t tile, stages, warps, producers;
  std::int64_t workers;  // warps, or warpgroups, that compute on their own
  std::int64_t row_tiles, splits, ahead;
  bool query_in_registers, last_cta, cluster, evict_first;
  std::int64_t rows;         // packed rows of a block
  std::int64_t head_blocks;  // blocks over the rows that share a KV head
  std::int64_t slab_tokens;  // tokens one tensor copy brings
  std::int64_t blocks;       // of a persistent grid; else 0
};

CompileUnit compile_unit(const Choice& choice, const DecodeShape& shape) {
  return {"templates/decode_attention/decode_attention.cu",
          {{"DTYPE", element_type(shape.dtype)},
           {"KV_DTYPE", element_type(shape.kv_dtype())},
           {"KV_HEAD_SCALES", shape.head_scales ? "1" : "0"},
           {"HEAD_DIM", std::to_string(shape.head_dim)},
           {"GROUP", std::to_string(shape.group())},
           {"PAGE", std::to_string(shape.page)},
           {"WINDOW", std::to_string(shape.window)},
           {"SINKS", shape.sinks ? "1" : "0"},
           {"QUERIES", std::to_string(shape.q_len)},
           {"LSE", shape.lse ? "1" : "0"},
           {"BODY_TMA", choice.tma ? "1" : "0"},
           {"MATH", choice.math},
           {"PERSISTENT", choice.persistent ? "1" : "0"},
           {"TILE", std::to_string(choice.tile)},
           {"STAGES", std::to_string(choice.stages)},
           {"WARPS", std::to_string(choice.warps)},
           {"PRODUCERS", std::to_string(choice.producers)},
           {"ROW_TILES", std::to_string(choice.row_tiles)},
           {"QUERY_IN_REGISTERS", choice.query_in_registers ? "1" : "0"},
           {"SHARED_BYTES", std::to_string(choice.shared_bytes(shape))}}};
}

// KV as [block][head][chunk][token][128 bytes], so that one box is a tile of one head in the order that the
// 128-byte swizzle wants it in shared memory.
TensorMap kv_map(const std::string& buffer, const Choice& choice, const DecodeShape& shape) {
  const KvStrides strides = shape.strides();
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements * dtype_bytes(shape.kv_dtype()));
  };
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::int64_t chunk = 128 / dtype_bytes(shape.kv_dtype());
  TensorMap map;
  map.buffer = buffer;
  map.dtype = shape.kv_dtype();
  map.dims = {count(chunk), count(shape.tokens_per_block()), count(shape.head_dim / chunk),
              count(shape.kv_heads), count(shape.blocks())};
  map.strides = {bytes(strides.token), bytes(chunk), bytes(strides.head), bytes(strides.block)};
  map.box = {u32(chunk), u32(choice.slab_tokens), u32(shape.head_dim / chunk), 1, 1};
  map.swizzle = TensorMap::Swizzle::b128;
  return map;
}

// Softmax runs on powers of two: 2^(score * scale * log2(e)).
float scale_log2(const DecodeShape& shape) {
  return static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(shape.head_dim)));
}

// Tokens of a sequence that KV, or its row of the page table, has room for.
std::int64_t capacity(const DecodeShape& shape) {
  return shape.paged() ? shape.max_pages() * shape.page : shape.context;
}

// What a block takes of shared memory beyond what it uses, where the grid runs in one wave and asks ahead:
// then the next launch's blocks do not fit beside those that run, and come one by one where one has ended.
// Beside them they would ask at their beginning, when memory is busy, and not at their end.
std::int64_t padding_bytes(const Choice& choice, const DecodeShape& shape, const DeviceLimits& limits,
                           std::int64_t used) {
  const std::int64_t blocks = shape.batch * shape.kv_heads * choice.head_blocks * choice.splits;
  if (choice.ahead == 0 || 2 * blocks <= limits.sm_count) return 0;
  const std::int64_t resident = ceil_div(blocks, limits.sm_count);
  if (resident * (used + kReservedShared) > limits.shared_per_sm) return 0;
  const std::int64_t least = limits.shared_per_sm / (resident + 1) - kReservedShared + 16;
  return std::max<std::int64_t>(0, least / 16 * 16 - used);
}

Launch attention_launch(const Choice& choice, const DecodeShape& shape, const DeviceLimits& limits) {
  Launch launch;
  launch.entry = "decode_attention";
  launch.grid = {u32(shape.kv_heads * choice.head_blocks), u32(choice.splits), u32(shape.batch)};
  if (choice.persistent) launch.grid = {u32(choice.blocks), 1, 1};
  launch.block = {u32(32 * (choice.warps + choice.producers)), 1, 1};
  if (choice.cluster) launch.cluster = {1, u32(choice.splits), 1};
  const std::int64_t used = choice.shared_bytes(shape) + choice.inbox_bytes(shape);
  launch.dynamic_shared = u32(used + padding_bytes(choice, shape, limits, used));
  launch.programmatic_dependent = limits.compute_capability >= 90;
  std::vector<Argument>& arguments = launch.arguments;
  const bool split = choice.partial_rows(shape) > 0;
  arguments = {Pointer{"q"}};
  if (choice.tma) {
    arguments.insert(arguments.end(), {kv_map("k", choice, shape), kv_map("v", choice, shape)});
  } else {
    arguments.insert(arguments.end(), {Pointer{"k"}, Pointer{"v"}});
  }
  arguments.insert(arguments.end(),
                   {optional_pointer("k_scale", shape.narrow), optional_pointer("v_scale", shape.narrow),
                    page_table_argument(shape), Pointer{"lengths"}, optional_pointer("sinks", shape.sinks),
                    Pointer{"o"}, optional_pointer("lse", shape.lse), optional_pointer("partial_o", split),
                    optional_pointer("partial_lse", split), optional_pointer("counters", choice.last_cta)});
  if (!choice.tma) arguments.push_back(Scalar::of(shape.strides()));
  arguments.insert(arguments.end(), {Scalar::of(i32(capacity(shape))), Scalar::of(scale_log2(shape)),
                                     Scalar::of(std::int32_t{choice.evict_first})});
  if (choice.persistent) {
    arguments.insert(arguments.end(), {Scalar::of(i32(shape.batch)), Scalar::of(i32(shape.kv_heads))});
  } else if (choice.tma) {
    arguments.push_back(Scalar::of(i32(choice.ahead)));
  }
  return launch;
}

Launch combine_launch(const Choice& choice, const DecodeShape& shape, const DeviceLimits& limits) {
  Launch launch;
  launch.entry = "decode_attention_combine";
  launch.grid = {u32(shape.q_len * shape.q_heads), u32(shape.batch), 1};
  if (choice.persistent) launch.grid = {u32(choice.blocks), u32(choice.rows), 1};
  launch.block = {kCombineThreads, 1, 1};
  launch.arguments = {Pointer{"partial_o"}, Pointer{"partial_lse"},
                      Pointer{"lengths"},   optional_pointer("sinks", shape.sinks),
                      Pointer{"o"},         optional_pointer("lse", shape.lse)};
  if (choice.persistent) {
    launch.arguments.insert(launch.arguments.end(),
                            {Scalar::of(i32(shape.batch)), Scalar::of(i32(shape.kv_heads))});
  } else {
    launch.arguments.push_back(Scalar::of(i32(choice.splits)));
  }
  launch.programmatic_dependent = limits.compute_capability >= 90;
  return launch;
}

}  // namespace

Plan decode_attention_plan(const Config& config, const DecodeShape& shape, const DeviceLimits& limits) {
  const Choice choice(config, shape, limits);
  Plan plan;
  plan.unit = compile_unit(choice, shape);
  plan.launches.push_back(attention_launch(choice, shape, limits));
  const std::int64_t rows = choice.partial_rows(shape);
  if (rows == 0) return plan;
  plan.scratch = {{"partial_o", rows * shape.head_dim * 4}, {"partial_lse", rows * 4}};
  if (choice.last_cta) {
    plan.scratch.push_back({"counters", choice.counters(shape) * 4, true});
  } else {
    plan.launches.push_back(combine_launch(choice, shape, limits));
  }
  return plan;
}

Plan decode_attention_reference_plan(Reference which, const DecodeShape& shape) {
  Plan plan;
  plan.unit = {"templates/decode_attention/reference.cu",
               {{"DTYPE", element_type(shape.dtype)},
                {"KV_DTYPE", element_type(shape.kv_dtype())},
                {"KV_HEAD_SCALES", shape.head_scales ? "1" : "0"},
                {"HEAD_DIM", std::to_string(shape.head_dim)},
                {"PAGE", std::to_string(shape.page)},
                {"WINDOW", std::to_string(shape.window)},
                {"SINKS", shape.sinks ? "1" : "0"},
                {"QUERIES", std::to_string(shape.q_len)},
                {"LSE", shape.lse ? "1" : "0"},
                {"BASELINE", which == Reference::baseline ? "1" : "0"}}};
  // A block keeps the scores of one row at a time.
  const std::int64_t blocks = std::min(shape.query_rows(), kReferenceScoreBytes / (shape.context * 4));
  plan.scratch = {{"scores", blocks * shape.context * 4}};
  Launch launch;
  launch.entry = "decode_attention_reference";
  launch.grid = {u32(blocks), 1, 1};
  launch.block = {kReferenceThreads, 1, 1};
  launch.arguments = {Pointer{"q"},
                      Pointer{"k"},
                      Pointer{"v"},
                      optional_pointer("k_scale", shape.narrow),
                      optional_pointer("v_scale", shape.narrow),
                      page_table_argument(shape),
                      Pointer{"lengths"},
                      optional_pointer("sinks", shape.sinks),
                      Pointer{"o"},
                      optional_pointer("lse", shape.lse),
                      Pointer{"scores"},
                      Scalar::of(shape.strides()),
                      Scalar::of(i32(shape.max_pages())),
                      Scalar::of(i32(shape.context)),
                      Scalar::of(i32(shape.q_heads)),
                      Scalar::of(i32(shape.kv_heads)),
                      Scalar::of(shape.query_rows()),
                      Scalar::of(shape.scale())};
  plan.launches.push_back(std::move(launch));
  return plan;
}

}  // namespace moetune
