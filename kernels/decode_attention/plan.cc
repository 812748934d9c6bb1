#include "kernels/decode_attention/plan.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/integers.h"
#include "kernels/decode_attention/call.h"
#include "kernels/decode_attention/problem.h"
#include "kernels/limits.h"
#include "search/assignment.h"

namespace moetune {
namespace {

// A configuration by name, with what follows from it for one family: blocks, threads, shared memory.
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
  const std::int64_t query = (persistent ? 3 : 1) * 16 * row_tiles * ceil_div(shape.head_dim, 64) * 128;
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

constexpr std::uint32_t kCombineThreads = 128;
constexpr std::uint32_t kReferenceThreads = 512;
constexpr std::int64_t kReferenceScoreBytes = std::int64_t{4} << 30;  // 256 blocks of the longest context

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }
std::int32_t i32(std::int64_t value) { return static_cast<std::int32_t>(value); }

CompileUnit compile_unit(const DecodeChoice& choice, const DecodeShape& shape) {
  CompileUnit unit{"templates/decode_attention/decode_attention.cu",
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
  define_softcap(unit, shape.softcap);
  return unit;
}

using Arguments = decltype(Launch::arguments);

void add_row_strides(Arguments& arguments, const char* sequence, const char* token, const char* head,
                     const RowStrides& strides) {
  arguments.push_back({sequence, strides.sequence});
  arguments.push_back({token, strides.token});
  arguments.push_back({head, strides.head});
}

void add_kv_strides(Arguments& arguments, const DecodeCall& call) {
  arguments.push_back({"k_block_stride", call.k.block});
  arguments.push_back({"k_head_stride", call.k.head});
  arguments.push_back({"k_token_stride", call.k.token});
  arguments.push_back({"v_block_stride", call.v.block});
  arguments.push_back({"v_head_stride", call.v.head});
  arguments.push_back({"v_token_stride", call.v.token});
}

void add_q_strides(Arguments& arguments, const DecodeCall& call) {
  add_row_strides(arguments, "q_sequence_stride", "q_token_stride", "q_head_stride", call.q);
}

void add_o_strides(Arguments& arguments, const DecodeCall& call) {
  add_row_strides(arguments, "o_sequence_stride", "o_token_stride", "o_head_stride", call.o);
}

void add_kv_pointers(Arguments& arguments, const DecodeShape& shape, const DecodeCall& call) {
  arguments.push_back({"k", call.kv(shape).pointer(false)});
  arguments.push_back({"v", call.kv(shape).pointer(true)});
}

// Arguments of every kernel that reads KV through a page table, and of every one that writes o.
void add_scales_and_pages(Arguments& arguments, const DecodeShape& shape) {
  arguments.push_back(pointer_argument("k_scale", shape.narrow));
  arguments.push_back(pointer_argument("v_scale", shape.narrow));
  arguments.push_back(pointer_argument("page_table", shape.paged()));
}

void add_outputs(Arguments& arguments, const DecodeShape& shape) {
  arguments.push_back(pointer_argument("lengths"));
  arguments.push_back(pointer_argument("sinks", shape.sinks));
  arguments.push_back(pointer_argument("o"));
  arguments.push_back(pointer_argument("lse", shape.lse));
}

// The number of sequences and KV heads, which a persistent grid does not show.
void add_extents(Arguments& arguments, const DecodeShape& shape) {
  arguments.push_back({"batch", i32(shape.batch)});
  arguments.push_back({"kv_heads", i32(shape.kv_heads)});
}

void fill_attention(Launch& launch, const DecodeChoice& choice, const DecodeShape& shape, const DecodeCall& call,
                    const DeviceLimits& limits) {
  launch.entry = "decode_attention";
  launch.grid = {u32(shape.kv_heads * choice.head_blocks), u32(choice.splits), u32(shape.batch)};
  if (choice.persistent) launch.grid = {u32(choice.blocks), 1, 1};
  launch.block = {u32(choice.threads()), 1, 1};
  if (choice.cluster) launch.cluster = {1, u32(choice.splits), 1};
  launch.dynamic_shared = u32(choice.dynamic_shared(shape, limits));
  launch.programmatic_dependent = limits.compute_capability >= 90;
  Arguments& arguments = launch.arguments;
  const bool split = choice.partial_rows(shape) > 0;
  arguments.push_back(pointer_argument("q"));
  if (choice.tma) {
    const KvTensors kv = call.kv(shape);
    const std::int64_t chunks = RowChunks(shape.kv_dtype(), shape.head_dim).of_a_map;
    arguments.push_back({"k_map", kv.map(false, choice.box_tokens, chunks)});
    arguments.push_back({"v_map", kv.map(true, choice.box_tokens, chunks)});
  } else {
    add_kv_pointers(arguments, shape, call);
  }
  add_scales_and_pages(arguments, shape);
  add_outputs(arguments, shape);
  arguments.push_back(pointer_argument("partial_o", split));
  arguments.push_back(pointer_argument("partial_lse", split));
  arguments.push_back(pointer_argument("counters", choice.last_cta));
  add_q_strides(arguments, call);
  add_o_strides(arguments, call);
  if (!choice.tma) add_kv_strides(arguments, call);
  arguments.push_back({"page_table_stride", call.page_table_stride});
  arguments.push_back({"capacity", i32(call.capacity)});
  arguments.push_back({"scale_log2", scale_log2(call.scale)});
  // Named after its first bit, as shipped cubins know it. Those built before the second take it for the first.
  arguments.push_back({"evict_first", i32(choice.evict_first + 2 * call.kv_settled)});
  if (choice.persistent) {
    add_extents(arguments, shape);
  } else if (choice.tma) {
    arguments.push_back({"tiles_before_wait", i32(choice.ahead)});
  }
}

void fill_combine(Launch& launch, const DecodeChoice& choice, const DecodeShape& shape, const DecodeCall& call,
                  const DeviceLimits& limits) {
  launch.entry = "decode_attention_combine";
  launch.grid = {u32(shape.q_len * shape.q_heads), u32(shape.batch), 1};
  if (choice.persistent) launch.grid = {u32(choice.blocks), u32(choice.rows), 1};
  launch.block = {kCombineThreads, 1, 1};
  launch.programmatic_dependent = limits.compute_capability >= 90;
  Arguments& arguments = launch.arguments;
  arguments.push_back(pointer_argument("partial_o"));
  arguments.push_back(pointer_argument("partial_lse"));
  add_outputs(arguments, shape);
  add_o_strides(arguments, call);
  arguments.push_back({"capacity", i32(call.capacity)});
  if (choice.persistent) {
    add_extents(arguments, shape);
  } else {
    arguments.push_back({"splits", i32(choice.splits)});
  }
}

class DecodeLauncher final : public Launcher {
 public:
  DecodeLauncher(const Config& config, const DecodeShape& shape, const DeviceLimits& limits)
      : shape_(shape), limits_(limits), choice_(config, shape, limits), unit_(compile_unit(choice_, shape)) {}

  const CompileUnit& unit() const override { return unit_; }

  Extents plan_extents(const Extents& extents) const override { return {extents[0], extents[1], 1}; }

  void plan(const Extents& extents, const Call& given, LaunchPlan& plan) const override {
    const DecodeShape shape = shape_.at(extents);
    const DecodeCall call(given);
    fill_attention(plan.launches.emplace_back(), choice_, shape, call, limits_);
    const std::int64_t rows = choice_.partial_rows(shape);
    if (rows == 0) return;
    plan.scratch.push_back({"partial_o", rows * shape.head_dim * 4});
    plan.scratch.push_back({"partial_lse", rows * 4});
    if (choice_.last_cta) {
      plan.scratch.push_back({"counters", choice_.counters(shape) * 4, true});
    } else {
      fill_combine(plan.launches.emplace_back(), choice_, shape, call, limits_);
    }
  }

 private:
  DecodeShape shape_;
  DeviceLimits limits_;
  DecodeChoice choice_;
  CompileUnit unit_;
};

}  // namespace

std::unique_ptr<const Launcher> decode_attention_launcher(const Config& config, const DecodeShape& shape,
                                                          const DeviceLimits& limits) {
  return std::make_unique<DecodeLauncher>(config, shape, limits);
}

Plan decode_attention_reference_plan(Reference which, const DecodeShape& shape, const DecodeCall& call) {
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
  define_softcap(plan.unit, shape.softcap);
  // A block keeps the scores of one row at a time.
  const std::int64_t blocks =
      std::max<std::int64_t>(1, std::min(shape.query_rows(), kReferenceScoreBytes / (call.capacity * 4)));
  plan.scratch.push_back({"scores", blocks * call.capacity * 4});
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "decode_attention_reference";
  launch.grid = {u32(blocks), 1, 1};
  launch.block = {kReferenceThreads, 1, 1};
  Arguments& arguments = launch.arguments;
  arguments.push_back(pointer_argument("q"));
  add_kv_pointers(arguments, shape, call);
  add_scales_and_pages(arguments, shape);
  add_outputs(arguments, shape);
  arguments.push_back(pointer_argument("scores"));
  add_q_strides(arguments, call);
  add_o_strides(arguments, call);
  add_kv_strides(arguments, call);
  arguments.push_back({"page_table_stride", call.page_table_stride});
  arguments.push_back({"capacity", i32(call.capacity)});
  arguments.push_back({"q_heads", i32(shape.q_heads)});
  arguments.push_back({"kv_heads", i32(shape.kv_heads)});
  arguments.push_back({"rows", shape.query_rows()});
  arguments.push_back({"scale", static_cast<float>(call.scale)});
  return plan;
}

}  // namespace moetune
