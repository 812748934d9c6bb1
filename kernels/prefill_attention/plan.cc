#include "kernels/prefill_attention/plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::int64_t kWarpgroupRows = 64, kWarpgroupThreads = 128;
constexpr std::int64_t kBarrierBytes = 256, kRawBarrierBytes = 64;
constexpr std::int64_t kRawStages =
    2;  // e4m3 tiles that landed, or are under way: templates/prefill_attention/shape.cuh
constexpr std::int64_t kChunkBytes = 128;         // of a row that a swizzle keeps together, at most
constexpr std::uint32_t kCombiningThreads = 256;  // templates/prefill_attention/combine_kernel.cuh
constexpr std::uint32_t kPrefillReferenceThreads = 256;
constexpr std::int64_t kReferenceRows = 64;

std::uint32_t unsigned_of(std::int64_t value) { return static_cast<std::uint32_t>(value); }
std::int32_t narrow_of(std::int64_t value) { return static_cast<std::int32_t>(value); }

// SCHEDULE of a configuration, as templates/prefill_attention/shape.cuh numbers them.
std::string schedule_macro(const Config& config) {
  if (config.is("schedule", "grid")) return "0";
  if (config.is("schedule", "static")) return "1";
  if (config.is("schedule", "dynamic")) return "2";
  throw std::logic_error("prefill_attention has no schedule '" + config.at("schedule").text() + "'");
}

// A configuration by name, with what follows from it for one family.
struct PrefillChoice {
  PrefillChoice(const Config& config, const PrefillShape& shape)
      : wgmma(config.is("body", "wgmma")),
        packed(config.number("packed") == 1),
        persistent(!config.is("schedule", "grid")),
        dynamic(config.is("schedule", "dynamic")),
        warpgroups(config.number("warpgroups")),
        tile(config.number("tile")),
        stages(config.number("stages")),
        section(config.number("section")),
        splits(config.number("splits")),
        rows(kWarpgroupRows * warpgroups),
        multiplies_bytes(wgmma && shape.narrow_queries),
        shared_bytes(shared_bytes_of(config, shape)),
        box_tokens(shape.paged() ? std::min(tile, shape.page) : tile) {}

  // Mirrors the layout in templates/prefill_attention/shape.cuh, which asserts that it agrees.
  std::int64_t shared_bytes_of(const Config& config, const PrefillShape& shape) const {
    const DType math = multiplies_bytes ? DType::e4m3 : DType::f16;  // of queries, keys and values in shared memory
    const RowChunks chunks(math, shape.head_dim);
    const std::int64_t row = chunks.count * chunks.elements * dtype_bytes(math);
    const std::int64_t values =
        multiplies_bytes ? ceil_div(tile, kChunkBytes) * kChunkBytes * shape.head_dim : tile * row;
    const std::int64_t raw = tile * (multiplies_bytes ? row : shape.head_dim);
    return (config.number("query_stages") * rows + stages * tile) * row + stages * values + kBarrierBytes +
           (wgmma && shape.narrow ? kRawStages * raw + kRawBarrierBytes : 0);
  }
  // The producers of the wgmma body are a warpgroup more.
  std::int64_t threads() const { return kWarpgroupThreads * (warpgroups + (wgmma ? 1 : 0)); }
  // Blocks of rows of a head (packed: of a KV head) of the sequence that has most.
  std::int64_t blocks(const PrefillShape& shape) const {
    return ceil_div(shape.seqlen_q * (packed ? shape.group() : 1), rows);
  }
  std::int64_t tiles(const PrefillShape& shape) const {
    return shape.batch * (packed ? shape.kv_heads : shape.q_heads) * blocks(shape) * splits;
  }
  // Pairs of a sequence and a KV head that are taken together; 0: sequence by sequence.
  std::int64_t section_of(const PrefillShape& shape) const { return std::min(section, shape.batch * shape.kv_heads); }
  // Query tokens that partial results have room for, of each sequence.
  std::int64_t partial_tokens(const PrefillShape& shape) const {
    return blocks(shape) * (rows / (packed ? shape.group() : 1));
  }
  std::int64_t partial_rows(const PrefillShape& shape) const {
    return splits * shape.batch * partial_tokens(shape) * shape.q_heads;
  }

  bool wgmma, packed, persistent, dynamic;
  std::int64_t warpgroups, tile, stages, section;
  std::int64_t splits;  // blocks that share a row's tokens
  std::int64_t rows;    // of a block
  bool multiplies_bytes;
  std::int64_t shared_bytes;
  std::int64_t box_tokens;  // that one tensor copy brings
};

std::vector<std::pair<std::string, std::string>> shape_macros(const PrefillShape& shape) {
  return {{"DTYPE", element_type(shape.dtype)},     {"HEAD_DIM", std::to_string(shape.head_dim)},
          {"GROUP", std::to_string(shape.group())}, {"PAGE", std::to_string(shape.page)},
          {"CAUSAL", shape.causal ? "1" : "0"},     {"WINDOW", std::to_string(shape.window)},
          {"SINKS", shape.sinks ? "1" : "0"},       {"LSE", shape.lse ? "1" : "0"}};
}

void define_kv(CompileUnit& unit, const PrefillShape& shape) {
  unit.defines.emplace_back("KV_DTYPE", element_type(shape.kv_dtype()));
  unit.defines.emplace_back("KV_HEAD_SCALES", shape.head_scales ? "1" : "0");
  if (shape.narrow_queries) unit.defines.emplace_back("Q_DTYPE", element_type(shape.q_dtype()));
}

CompileUnit prefill_unit(const PrefillChoice& choice, const Config& config, const PrefillShape& shape) {
  CompileUnit unit{"templates/prefill_attention/prefill_attention.cu", shape_macros(shape)};
  unit.defines.emplace_back("BODY_WGMMA", choice.wgmma ? "1" : "0");
  for (const auto& [macro, name] : {std::pair{"WARPGROUPS", "warpgroups"},
                                    {"TILE", "tile"},
                                    {"STAGES", "stages"},
                                    {"QUERY_STAGES", "query_stages"},
                                    {"PACKED", "packed"},
                                    {"OVERLAP", "overlap"},
                                    {"PING_PONG", "ping_pong"},
                                    {"LAG", "lag"},
                                    {"POLY", "poly"},
                                    {"TRIM", "trim"}}) {
    unit.defines.emplace_back(macro, config.at(name).text());
  }
  unit.defines.emplace_back("SCHEDULE", schedule_macro(config));
  unit.defines.emplace_back("CLUSTER", config.at("cluster").text());  // part of the interface of the packs' cubins
  unit.defines.emplace_back("SHARED_BYTES", std::to_string(choice.shared_bytes));
  if (shape.narrow) define_kv(unit, shape);
  define_softcap(unit, shape.softcap);
  return unit;
}

// Rows of queries as [head][chunk][token][128 bytes], or, packed, [KV head][chunk][token][head of it][128 bytes]:
// one box is a block's rows of one chunk, in the order that the 128-byte swizzle wants them in shared memory.
TensorMap query_map(const PrefillChoice& choice, const PrefillShape& shape, const PrefillCall& call) {
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements * dtype_bytes(shape.q_dtype()));
  };
  const RowChunks chunks(shape.q_dtype(), shape.head_dim);
  const std::int64_t chunk = chunks.elements, group = shape.group();
  TensorMap map;
  map.buffer = "q";
  map.dtype = shape.q_dtype();
  map.swizzle = chunks.swizzle;
  if (choice.packed) {
    map.dims = {count(chunks.innermost), count(group), count(call.q_tokens), count(chunks.of_a_map),
                count(shape.kv_heads)};
    map.strides = {bytes(call.q.head), bytes(call.q.token), bytes(chunk), bytes(group * call.q.head)};
    map.box = {unsigned_of(chunk), unsigned_of(group), unsigned_of(choice.rows / group), 1, 1};
  } else {
    map.dims = {count(chunks.innermost), count(call.q_tokens), count(chunks.of_a_map), count(shape.q_heads), 1};
    map.strides = {bytes(call.q.token), bytes(chunk), bytes(call.q.head), bytes(call.q.head)};
    map.box = {unsigned_of(chunk), unsigned_of(choice.rows), 1, 1, 1};
  }
  return map;
}

using PrefillArguments = decltype(Launch::arguments);

void add_tensors(PrefillArguments& arguments, const PrefillShape& shape, const PrefillCall& call) {
  const KvTensors kv = call.kv(shape);
  arguments.push_back(pointer_argument("q"));
  arguments.push_back({"k", kv.pointer(false)});
  arguments.push_back({"v", kv.pointer(true)});
}

void add_maps(PrefillArguments& arguments, const PrefillChoice& choice, const PrefillShape& shape,
              const PrefillCall& call) {
  const KvTensors kv = call.kv(shape);
  arguments.push_back({"q_map", query_map(choice, shape, call)});
  for (const bool values : {false, true}) {
    arguments.push_back({values ? "v_map" : "k_map", shape.narrow && !choice.multiplies_bytes
                                                         ? kv.row_map(values, choice.box_tokens)
                                                         : kv.map(values, choice.box_tokens, 1)});
  }
}

void add_lengths(PrefillArguments& arguments, const PrefillShape& shape) {
  arguments.push_back(pointer_argument("q_offsets"));
  arguments.push_back(pointer_argument("kv_offsets", !shape.paged()));
  arguments.push_back(pointer_argument("kv_lengths", shape.paged()));
  arguments.push_back(pointer_argument("page_table", shape.paged()));
  arguments.push_back(pointer_argument("sinks", shape.sinks));
  arguments.push_back(pointer_argument("o"));
  arguments.push_back(pointer_argument("lse", shape.lse));
}

void add_output_strides(PrefillArguments& arguments, const PrefillCall& call) {
  arguments.push_back({"page_table_stride", call.page_table_stride});
  arguments.push_back({"o_token_stride", call.o.token});
  arguments.push_back({"o_head_stride", call.o.head});
}

void add_scales(PrefillArguments& arguments, const PrefillShape& shape) {
  if (shape.narrow_queries) arguments.push_back(pointer_argument("q_scale"));
  arguments.push_back(pointer_argument("k_scale", shape.narrow));
  arguments.push_back(pointer_argument("v_scale", shape.narrow));
}

// Adds the strides of queries, keys and values, for kernels without tensor maps.
void add_input_strides(PrefillArguments& arguments, const PrefillCall& call) {
  arguments.push_back({"q_token_stride", call.q.token});
  arguments.push_back({"q_head_stride", call.q.head});
  arguments.push_back({"k_block_stride", call.k.block});
  arguments.push_back({"k_head_stride", call.k.head});
  arguments.push_back({"k_token_stride", call.k.token});
  arguments.push_back({"v_block_stride", call.v.block});
  arguments.push_back({"v_head_stride", call.v.head});
  arguments.push_back({"v_token_stride", call.v.token});
}

void fill_prefill(Launch& launch, const PrefillChoice& choice, const PrefillShape& shape, const PrefillCall& call,
                  const DeviceLimits& limits) {
  const std::int64_t tiles = choice.tiles(shape);
  launch.entry = "prefill_attention";
  launch.grid[0] = unsigned_of(choice.persistent ? std::min<std::int64_t>(tiles, limits.sm_count) : tiles);
  launch.block[0] = unsigned_of(choice.threads());
  launch.dynamic_shared = unsigned_of(choice.shared_bytes);
  launch.programmatic_dependent = limits.compute_capability >= 90;
  PrefillArguments& arguments = launch.arguments;
  if (choice.wgmma) {
    add_maps(arguments, choice, shape, call);
  } else {
    add_tensors(arguments, shape, call);
  }
  add_lengths(arguments, shape);
  arguments.push_back(pointer_argument("counter", choice.dynamic));
  add_output_strides(arguments, call);
  if (!choice.wgmma) add_input_strides(arguments, call);
  arguments.push_back({"batch", narrow_of(shape.batch)});
  arguments.push_back({"kv_heads", narrow_of(shape.kv_heads)});
  arguments.push_back({"blocks", narrow_of(choice.blocks(shape))});
  arguments.push_back({"q_tokens", narrow_of(call.q_tokens)});
  arguments.push_back({"capacity", narrow_of(call.capacity)});
  arguments.push_back({"section", narrow_of(choice.section_of(shape))});
  arguments.push_back({"scale_log2", scale_log2(call.scale)});
  arguments.push_back(pointer_argument("partial_o", choice.splits > 1));
  arguments.push_back(pointer_argument("partial_lse", choice.splits > 1));
  arguments.push_back({"splits", narrow_of(choice.splits)});
  if (shape.narrow) add_scales(arguments, shape);
}

void fill_prefill_combine(Launch& launch, const PrefillChoice& choice, const PrefillShape& shape,
                          const PrefillCall& call, const DeviceLimits& limits) {
  launch.entry = "prefill_attention_combine";
  launch.grid = {unsigned_of(choice.partial_tokens(shape)), unsigned_of(shape.batch), 1};
  launch.block[0] = kCombiningThreads;
  launch.programmatic_dependent = limits.compute_capability >= 90;
  PrefillArguments& arguments = launch.arguments;
  arguments.push_back(pointer_argument("partial_o"));
  arguments.push_back(pointer_argument("partial_lse"));
  arguments.push_back(pointer_argument("q_offsets"));
  arguments.push_back(pointer_argument("sinks", shape.sinks));
  arguments.push_back(pointer_argument("o"));
  arguments.push_back(pointer_argument("lse", shape.lse));
  arguments.push_back({"o_token_stride", call.o.token});
  arguments.push_back({"o_head_stride", call.o.head});
  arguments.push_back({"q_heads", narrow_of(shape.q_heads)});
  arguments.push_back({"q_tokens", narrow_of(call.q_tokens)});
  arguments.push_back({"splits", narrow_of(choice.splits)});
}

class PrefillLauncher final : public Launcher {
 public:
  PrefillLauncher(const Config& config, const PrefillShape& shape, const DeviceLimits& limits)
      : shape_(shape), limits_(limits), choice_(config, shape), unit_(prefill_unit(choice_, config, shape)) {}

  const CompileUnit& unit() const override { return unit_; }

  Extents plan_extents(const Extents& extents) const override { return {extents[0], extents[1], extents[2], 1}; }

  void plan(const Extents& extents, const Call& given, LaunchPlan& plan) const override {
    const PrefillShape shape = shape_.at(extents);
    const PrefillCall call(given);
    fill_prefill(plan.launches.emplace_back(), choice_, shape, call, limits_);
    if (choice_.dynamic) plan.scratch.push_back({"counter", 8, true});
    if (choice_.splits == 1) return;
    plan.scratch.push_back({"partial_o", choice_.partial_rows(shape) * shape.head_dim * 4});
    plan.scratch.push_back({"partial_lse", choice_.partial_rows(shape) * 4});
    fill_prefill_combine(plan.launches.emplace_back(), choice_, shape, call, limits_);
  }

 private:
  PrefillShape shape_;
  DeviceLimits limits_;
  PrefillChoice choice_;
  CompileUnit unit_;
};

}  // namespace

std::unique_ptr<const Launcher> prefill_attention_launcher(const Config& config, const PrefillShape& shape,
                                                           const DeviceLimits& limits) {
  return std::make_unique<PrefillLauncher>(config, shape, limits);
}

Plan prefill_attention_reference_plan(Reference which, const PrefillShape& shape, const PrefillCall& call) {
  Plan plan;
  plan.unit = {"templates/prefill_attention/reference.cu", shape_macros(shape)};
  define_kv(plan.unit, shape);
  define_softcap(plan.unit, shape.softcap);
  plan.unit.defines.emplace_back("BASELINE", which == Reference::baseline ? "1" : "0");
  Launch& launch = plan.launches.emplace_back();
  launch.entry = "prefill_attention_reference";
  launch.grid = {unsigned_of(ceil_div(shape.seqlen_q, kReferenceRows)), unsigned_of(shape.q_heads),
                 unsigned_of(shape.batch)};
  launch.block[0] = kPrefillReferenceThreads;
  // Queries, then keys or values, in rows of an odd number of words; probabilities behind them.
  launch.dynamic_shared = unsigned_of(2 * kReferenceRows * (shape.head_dim + 2) * dtype_bytes(shape.dtype) +
                                      kReferenceRows * (kReferenceRows + 1) * 4);
  PrefillArguments& arguments = launch.arguments;
  add_tensors(arguments, shape, call);
  add_lengths(arguments, shape);
  add_output_strides(arguments, call);
  add_input_strides(arguments, call);
  arguments.push_back({"q_tokens", narrow_of(call.q_tokens)});
  arguments.push_back({"capacity", narrow_of(call.capacity)});
  arguments.push_back({"scale", static_cast<float>(call.scale)});
  add_scales(arguments, shape);
  return plan;
}

}  // namespace moetune
