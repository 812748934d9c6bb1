#include "kernels/moe/moe_experts_plan.h"

#include <algorithm>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::int64_t kExpertsReferenceThreads = 256, kExpertsReferenceTile = 16;
constexpr std::int64_t kExpertsCombineThreads = 256, kCombineValues = 8;  // templates/moe_experts/combine.cuh
constexpr std::int64_t kExpertsSwizzleBytes = 128;
constexpr std::int64_t kSwizzledRows = 8;
constexpr std::int64_t kExpertsBarriers = 128;  // bytes: templates/moe_experts/product.cuh
constexpr std::int64_t kExpertsTickets = 128;
constexpr std::int64_t kFirstReady = 32;  // counters: templates/moe_experts/tickets.cuh
constexpr std::int64_t kExpertsWarp = 32;

using Defines = std::vector<std::pair<std::string, std::string>>;

std::uint32_t to_unsigned(std::int64_t value) { return static_cast<std::uint32_t>(value); }
std::int32_t to_int(std::int64_t value) { return static_cast<std::int32_t>(value); }

Defines experts_defines(const MoeExpertsShape& shape) {
  return {{"DTYPE", shape.dtype == DType::bf16 ? "Bf16" : "Fp16"},
          {"NARROW", shape.narrow() ? "1" : "0"},
          {"PACKED", shape.packed ? "1" : "0"},
          {"BIASED", shape.biased ? "1" : "0"},
          {"HAS_UP", shape.has_up() ? "1" : "0"},
          {"HAS_DOWN", shape.has_down() ? "1" : "0"},
          {"X_PLACES", shape.x_places ? "1" : "0"},
          {"OUT_PLACES", shape.out_places ? "1" : "0"},
          {"N_MAJOR", shape.n_major ? "1" : "0"},
          {"HIDDEN", std::to_string(shape.hidden)},
          {"INTERMEDIATE", std::to_string(shape.intermediate)},
          {"EXPERTS", std::to_string(shape.experts())},
          {"TOP_K", std::to_string(shape.top_k)}};
}

// One of the two products of a configuration, for one family.
struct ExpertsProduct {
  std::int64_t matrices;  // of the weights that a tile multiplies by: gate and up, or down
  std::int64_t columns, stages;
  std::int64_t width, depth;  // of the whole product
  std::int64_t extra_warps;   // beside those that multiply

  std::int64_t column_tiles() const { return ceil_div(width, columns); }
};

// A configuration by name, with what follows from it for one family.
struct ExpertsChoice {
  // Those that load, beside warps that multiply by wgmma.
  static constexpr std::int64_t extra_warps(bool gathers) { return gathers ? 3 : 1; }

  ExpertsChoice(const Config& config, const MoeExpertsShape& shape)
      : wgmma(!config.is("body", "mma")),
        swapped(config.is("body", "swapped")),
        fused(config.number("launches") == 2),
        persistent(config.is("schedule", "persistent")),
        narrow(shape.narrow()),
        packed(shape.packed),
        biased(shape.biased),
        quantizes(narrow && shape.has_up() && shape.has_down()),
        gathers(narrow || !shape.x_places),
        size(dtype_bytes(shape.operand)),
        rows(config.number("rows")),
        depth(config.number("depth")),
        warps(config.number("warps")),
        residents(config.number("residents")),
        up{2,
           config.number("up_columns"),
           config.number("up_stages"),
           shape.intermediate,
           shape.hidden,
           wgmma ? extra_warps(gathers) : 0},
        down{1,
             config.number("down_columns"),
             config.number("down_stages"),
             shape.hidden,
             shape.intermediate,
             wgmma ? extra_warps(gathers && !shape.has_up()) : 0},
        list_bytes(4 * (2 * (shape.experts() + 1) + kExpertsWarp)) {}

  std::int64_t shared_bytes(const ExpertsProduct& product) const {
    const std::int64_t columns = product.matrices * product.columns;
    const std::int64_t scales = packed            ? columns / kPackedRows * (depth / kPackedDepth) * kPackedScaleBytes
                                : narrow && wgmma ? 4 * rows * depth / between_group()
                                                  : 0;
    const std::int64_t weights = packed ? columns * depth / 2 : columns * depth * size;
    const std::int64_t stage = depth * size * rows + weights + scales;
    return product.stages * stage + kExpertsBarriers + (fused ? kExpertsTickets : 0) +
           (quantizes && swapped ? 2 * warps * rows * 4 : 0) + list_bytes;
  }

  // Values of what lies between the products that share a scale, or of x if it is not there.
  std::int64_t between_group() const { return quantizes ? own_columns(up) : narrow ? kExpertsScaleGroup : 1; }

  // Tiles of rows for whatever routing fills no more than the places: an expert's last may be nearly empty.
  std::int64_t row_tiles(const MoeExpertsShape& shape, std::int64_t places) const {
    const std::int64_t filled = std::min(shape.experts(), std::min(shape.slots(), places));
    return (places + filled * (rows - 1)) / rows;
  }

  std::int64_t blocks(std::int64_t tiles, const DeviceLimits& limits) const {
    return persistent ? std::min(tiles, residents * limits.sm_count) : tiles;
  }

  // Columns of a warpgroup, which one tensor copy of weights has; with mma.sync, of a warp.
  std::int64_t own_columns(const ExpertsProduct& product) const {
    if (!wgmma) return product.columns / (warps / ceil_div(rows, std::int64_t{64}));
    const std::int64_t groups = warps / 4;
    return product.columns / (swapped ? groups : groups / std::min(groups, rows / 64));
  }

  bool wgmma, swapped, fused, persistent, narrow, packed, biased;
  bool quantizes;     // what lies between the products
  bool gathers;       // rows of x by cp.async
  std::int64_t size;  // of an element of rows, and of weights that are not packed
  std::int64_t rows, depth, warps, residents;
  ExpertsProduct up, down;
  std::int64_t list_bytes;
};

CompileUnit experts_unit(const ExpertsChoice& choice, const Config& config, const MoeExpertsShape& shape) {
  CompileUnit unit{"templates/moe_experts/moe_experts.cu", experts_defines(shape)};
  unit.defines.emplace_back("BODY_WGMMA", choice.wgmma ? "1" : "0");
  for (const auto& [macro, name] : {std::pair<const char*, const char*>{"ROWS", "rows"},
                                    {"WARPS", "warps"},
                                    {"DEPTH", "depth"},
                                    {"UP_COLUMNS", "up_columns"},
                                    {"UP_STAGES", "up_stages"},
                                    {"DOWN_COLUMNS", "down_columns"},
                                    {"DOWN_STAGES", "down_stages"},
                                    {"RESIDENTS", "residents"}})
    unit.defines.emplace_back(macro, config.at(name).text());
  unit.defines.emplace_back("SWAPPED", choice.swapped ? "1" : "0");
  unit.defines.emplace_back("FUSED", choice.fused ? "1" : "0");
  unit.defines.emplace_back("BETWEEN_GROUP", std::to_string(choice.between_group()));
  unit.defines.emplace_back("STREAM", config.is("weights", "stream") ? "1" : "0");
  unit.defines.emplace_back("SHARED_UP", std::to_string(choice.shared_bytes(choice.up)));
  unit.defines.emplace_back("SHARED_DOWN", std::to_string(choice.shared_bytes(choice.down)));
  return unit;
}

std::uint64_t count(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Weights as [expert][eight columns][matrix][column][K]: a box is a chunk of K of a warpgroup's columns, eight of each
// matrix in turn, in the order that the 128-byte swizzle wants.
TensorMap weight_map(const char* buffer, DType dtype, const ExpertsProduct& product, std::int64_t own_columns,
                     std::int64_t experts, std::int64_t row, std::int64_t expert, bool in_turn) {
  const std::int64_t size = dtype_bytes(dtype);
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::uint64_t>(size * elements); };
  TensorMap map;
  map.buffer = buffer;
  map.dtype = dtype;
  map.swizzle = TensorMap::Swizzle::b128;
  map.dims = {count(product.depth), count(kSwizzledRows), count(product.matrices), count(product.width / kSwizzledRows),
              count(experts)};
  const std::int64_t column = in_turn ? product.matrices * row : row;
  map.strides = {bytes(column), bytes(in_turn ? row : product.width * row), bytes(kSwizzledRows * column),
                 bytes(expert)};
  map.box = {to_unsigned(kExpertsSwizzleBytes / size), to_unsigned(kSwizzledRows), to_unsigned(product.matrices),
             to_unsigned(own_columns / kSwizzledRows), 1};
  return map;
}

// Weights whose N is contiguous as [expert][matrix][K][column]: a box is 64 columns by a chunk of K, of each matrix. Of
// columns in turn there is one matrix.
TensorMap column_map(const char* buffer, DType dtype, const ExpertsProduct& product, std::int64_t experts,
                     std::int64_t row, std::int64_t expert, bool in_turn) {
  const std::int64_t size = dtype_bytes(dtype), block = kExpertsSwizzleBytes / size;
  const std::int64_t matrices = in_turn ? 1 : product.matrices;
  const std::int64_t width = product.matrices * product.width / matrices;
  TensorMap map;
  map.buffer = buffer;
  map.dtype = dtype;
  map.swizzle = TensorMap::Swizzle::b128;
  map.dims = {count(width), count(product.depth), count(matrices), count(experts), 1};
  map.strides = {count(size * row), count(size * width), count(size * expert), count(size * expert)};
  map.box = {to_unsigned(block), to_unsigned(block), to_unsigned(matrices), 1, 1};
  return map;
}

// Packed weights as [expert][strip][block][words]: a box is a stage of a warpgroup's strips.
TensorMap packed_map(const char* buffer, const ExpertsProduct& product, std::int64_t own_columns, std::int64_t depth,
                     std::int64_t experts) {
  constexpr std::int64_t kWords = kPackedValueBytes / 4;
  const std::int64_t strips = product.matrices * product.width / kPackedRows,
                     blocks = ceil_div(product.depth, kPackedDepth);
  TensorMap map;
  map.buffer = buffer;
  map.dtype = DType::i32;
  map.dims = {count(kWords), count(blocks), count(strips), count(experts), 1};
  const std::uint64_t matrix = count(strips * blocks * kPackedValueBytes);
  map.strides = {count(kPackedValueBytes), count(blocks * kPackedValueBytes), matrix, matrix};
  map.box = {to_unsigned(kWords), to_unsigned(depth / kPackedDepth),
             to_unsigned(product.matrices * own_columns / kPackedRows), 1, 1};
  return map;
}

// Rows of places as [place][value]: a box is a chunk of a quarter of a tile's rows, or of eight.
TensorMap rows_map(const char* buffer, const ExpertsChoice& choice, const ExpertsProduct& product, DType dtype,
                   std::int64_t places) {
  const auto size = count(choice.size * product.depth);
  TensorMap map;
  map.buffer = buffer;
  map.dtype = dtype;
  map.swizzle = TensorMap::Swizzle::b128;
  map.dims = {count(product.depth), count(places), 1, 1, 1};
  map.strides = {size, size, size, size};
  map.box = {to_unsigned(kExpertsSwizzleBytes / choice.size), to_unsigned(std::max(choice.rows / 4, kSwizzledRows)), 1,
             1, 1};
  return map;
}

// Writes the launches of a call; of an empty one, as large as any could be.
class ExpertsLaunches {
 public:
  ExpertsLaunches(const ExpertsChoice& choice, const MoeExpertsShape& shape, const Call& call,
                  const DeviceLimits& limits, LaunchPlan& plan)
      : choice_(choice),
        shape_(shape),
        call_(call),
        limits_(limits),
        plan_(plan),
        places_(call.integers[kMoePlaces] == 0 ? shape.most_places() : call.integers[kMoePlaces]),
        row_tiles_(choice.row_tiles(shape, places_)) {}

  void write() {
    if (shape_.part == MoeExpertsShape::Part::whole)
      plan_.scratch.push_back({"between", choice_.size * places_ * shape_.intermediate});
    if (choice_.quantizes)
      plan_.scratch.push_back(
          {"between_scales", 4 * row_tiles_ * choice_.rows * shape_.intermediate / choice_.between_group()});
    if (!shape_.out_places) plan_.scratch.push_back({"products", 2 * places_ * shape_.hidden});
    if (choice_.fused) {
      plan_.scratch.push_back({"counters", 4 * counters(), true});
      write_both();
    } else {
      if (shape_.has_up()) write_up();
      if (shape_.has_down()) write_down();
    }
    if (!shape_.out_places) write_combine();
  }

 private:
  std::int64_t counters() const { return choice_.fused ? kFirstReady + row_tiles_ : 0; }

  Launch& begin(const char* entry, const ExpertsProduct& product, std::int64_t column_tiles) {
    Launch& launch = plan_.launches.emplace_back();
    launch.entry = entry;
    launch.grid[0] = to_unsigned(choice_.blocks(row_tiles_ * column_tiles, limits_));
    launch.block[0] = to_unsigned(kExpertsWarp * (choice_.warps + product.extra_warps));
    launch.dynamic_shared = to_unsigned(choice_.shared_bytes(product));
    launch.programmatic_dependent = limits_.compute_capability >= 90;
    return launch;
  }

  // Through the copy engine, or an address and strides.
  void add_up_weights(Launch& launch) const {
    add_weights(launch, "w_gate_up", choice_.up, call_.integers[kExpertsUpRow], call_.integers[kExpertsUpExpert]);
  }
  void add_down_weights(Launch& launch) const {
    add_weights(launch, "w_down", choice_.down, call_.integers[kExpertsDownRow], call_.integers[kExpertsDownExpert]);
  }
  void add_weights(Launch& launch, const char* buffer, const ExpertsProduct& product, std::int64_t row,
                   std::int64_t expert) const {
    if (choice_.wgmma && shape_.n_major) {
      launch.arguments.push_back(
          {buffer, column_map(buffer, shape_.operand, product, shape_.experts(), row, expert, choice_.biased)});
    } else if (choice_.wgmma) {
      launch.arguments.push_back(
          {buffer, choice_.packed
                       ? packed_map(buffer, product, choice_.own_columns(product), choice_.depth, shape_.experts())
                       : weight_map(buffer, shape_.operand, product, choice_.own_columns(product), shape_.experts(),
                                    row, expert, choice_.biased)});
    } else {
      launch.arguments.push_back({buffer, Pointer{buffer}});
      launch.arguments.push_back({"weight_row", row});
      launch.arguments.push_back({"weight_expert", expert});
    }
  }

  void add_scales(Launch& launch, const char* name) const {
    launch.arguments.push_back({name, choice_.narrow ? Pointer{name} : Pointer{}});
  }
  void add_weight_scales(Launch& launch, const char* name) const {
    launch.arguments.push_back({name, choice_.narrow || choice_.packed ? Pointer{name} : Pointer{}});
  }
  void add_biases(Launch& launch, const char* name) const {
    launch.arguments.push_back({name, choice_.biased ? Pointer{name} : Pointer{}});
  }
  // The buffer between the products, and the one behind the second: the caller's if a product is alone.
  const char* between() const { return !shape_.has_up() ? "x" : !shape_.has_down() ? "out" : "between"; }
  const char* products() const { return shape_.out_places ? "out" : "products"; }

  // Adds rows of places: a map for the copy engine, or their address.
  void add_places_of(Launch& launch, const char* name, const char* buffer, const ExpertsProduct& product,
                     bool through_map) const {
    if (through_map)
      launch.arguments.push_back({name, rows_map(buffer, choice_, product, shape_.operand, places_)});
    else
      launch.arguments.push_back({name, Pointer{buffer}});
  }
  void add_rows(Launch& launch, const ExpertsProduct& product) const {
    add_places_of(launch, "x", "x", product, choice_.wgmma && !choice_.gathers);
    launch.arguments.push_back({"x_row", call_.integers[kMoeRow]});
    add_scales(launch, "x_scale");
    launch.arguments.push_back({"sorted", shape_.x_places ? Pointer{} : Pointer{"sorted"}});
    launch.arguments.push_back({"offsets", Pointer{"offsets"}});
  }
  void add_places(Launch& launch) const {
    launch.arguments.push_back({"places", to_int(places_)});
    launch.arguments.push_back({"row_tiles", to_int(row_tiles_)});
  }
  void add_sizes(Launch& launch) const {
    launch.arguments.push_back({"tokens", to_int(shape_.tokens)});
    add_places(launch);
  }

  void write_up() {
    Launch& launch = begin("moe_experts_up", choice_.up, choice_.up.column_tiles());
    if (choice_.wgmma) add_up_weights(launch);
    add_rows(launch, choice_.up);
    if (!choice_.wgmma) add_up_weights(launch);
    add_weight_scales(launch, "gate_up_scale");
    add_biases(launch, "gate_up_bias");
    launch.arguments.push_back({"between", Pointer{between()}});
    launch.arguments.push_back({"between_scales", choice_.quantizes ? Pointer{"between_scales"} : Pointer{}});
    add_sizes(launch);
  }

  // Alone by wgmma, with the parameters of a first product.
  void write_down_alone() {
    Launch& launch = begin("moe_experts_down", choice_.down, choice_.down.column_tiles());
    add_down_weights(launch);
    add_rows(launch, choice_.down);
    add_weight_scales(launch, "down_scale");
    add_biases(launch, "down_bias");
    launch.arguments.push_back({"products", Pointer{products()}});
    launch.arguments.push_back({"value_scales", Pointer{}});
    add_sizes(launch);
  }

  void write_down() {
    if (choice_.wgmma && !shape_.has_up()) return write_down_alone();
    Launch& launch = begin("moe_experts_down", choice_.down, choice_.down.column_tiles());
    if (choice_.wgmma) add_down_weights(launch);
    add_places_of(launch, choice_.wgmma ? "rows" : "between", between(), choice_.down, choice_.wgmma);
    launch.arguments.push_back({"offsets", Pointer{"offsets"}});
    if (!choice_.wgmma) add_down_weights(launch);
    add_weight_scales(launch, "down_scale");
    add_biases(launch, "down_bias");
    add_scales(launch, shape_.has_up() ? "between_scales" : "x_scale");
    launch.arguments.push_back({"products", Pointer{products()}});
    add_places(launch);
  }

  void write_both() {
    Launch& launch = begin("moe_experts_products", choice_.up, choice_.up.column_tiles() + choice_.down.column_tiles());
    add_up_weights(launch);
    add_down_weights(launch);
    add_places_of(launch, "rows", "between", choice_.down, true);
    add_rows(launch, choice_.up);
    add_weight_scales(launch, "gate_up_scale");
    add_weight_scales(launch, "down_scale");
    add_biases(launch, "gate_up_bias");
    add_biases(launch, "down_bias");
    launch.arguments.push_back({"between", Pointer{"between"}});
    add_scales(launch, "between_scales");
    launch.arguments.push_back({"products", Pointer{"products"}});
    launch.arguments.push_back({"counters", Pointer{"counters"}});
    add_sizes(launch);
  }

  void write_combine() {
    Launch& launch = plan_.launches.emplace_back();
    launch.entry = "moe_experts_combine";
    launch.grid[0] = to_unsigned(ceil_div(shape_.tokens * (shape_.hidden / kCombineValues), kExpertsCombineThreads));
    launch.block[0] = to_unsigned(kExpertsCombineThreads);
    launch.programmatic_dependent = limits_.compute_capability >= 90;
    launch.arguments = {{"products", Pointer{"products"}},
                        {"inverse", Pointer{"inverse"}},
                        {"weights", Pointer{"weights"}},
                        {"out", Pointer{"out"}},
                        {"out_row", call_.integers[kExpertsOutRow]},
                        {"tokens", to_int(shape_.tokens)},
                        {"counters", choice_.fused ? Pointer{"counters"} : Pointer{}},
                        {"counter_count", to_int(counters())}};
  }

  const ExpertsChoice& choice_;
  const MoeExpertsShape& shape_;
  const Call& call_;
  const DeviceLimits& limits_;
  LaunchPlan& plan_;
  std::int64_t places_, row_tiles_;
};

Pointer given(bool is_there, const char* name) { return is_there ? Pointer{name} : Pointer{}; }

Launch& begin_reference(Plan& plan, const char* entry, std::int64_t threads) {
  Launch& launch = plan.launches.emplace_back();
  launch.entry = entry;
  launch.grid[0] = to_unsigned(ceil_div(threads, kExpertsReferenceThreads));
  launch.block[0] = to_unsigned(kExpertsReferenceThreads);
  return launch;
}

// The second product, of `between` or x, and the tokens' sums if the output has them.
void add_down_reference(Plan& plan, const MoeExpertsShape& shape, const Call& call) {
  const std::int64_t places = call.integers[kMoePlaces];
  const bool combines = !shape.out_places;
  if (combines) plan.scratch.push_back({"products", 4 * places * shape.hidden});
  begin_reference(plan, "moe_experts_reference_down", ceil_div(places, kExpertsReferenceTile) * shape.hidden)
      .arguments = {{"rows", Pointer{shape.has_up() ? "between" : "x"}},
                    {"row_scale", given(!shape.has_up() && shape.narrow(), "x_scale")},
                    {"offsets", Pointer{"offsets"}},
                    {"weights", Pointer{"w_down"}},
                    {"weight_row", call.integers[kExpertsDownRow]},
                    {"weight_expert", call.integers[kExpertsDownExpert]},
                    {"down_scale", given(shape.narrow() || shape.packed, "down_scale")},
                    {"down_bias", given(shape.biased, "down_bias")},
                    {"products", Pointer{combines ? "products" : "out"}},
                    {"product_row", combines ? shape.hidden : call.integers[kExpertsOutRow]},
                    {"sorted", given(!shape.x_places, "sorted")},
                    {"tokens", to_int(shape.tokens)},
                    {"places", to_int(places)}};
  if (!combines) return;
  begin_reference(plan, "moe_experts_reference_combine", shape.tokens * shape.hidden).arguments = {
      {"products", Pointer{"products"}},
      {"inverse", Pointer{"inverse"}},
      {"shares", Pointer{"weights"}},
      {"out", Pointer{"out"}},
      {"out_row", call.integers[kExpertsOutRow]},
      {"tokens", to_int(shape.tokens)}};
}

}  // namespace

std::unique_ptr<const Launcher> moe_experts_launcher(const Config& config, const MoeExpertsShape& of,
                                                     const DeviceLimits& limits) {
  const ExpertsChoice choice(config, of);
  return make_launcher(experts_unit(choice, config, of),
                       [=](const Extents& extents, const Call& call, LaunchPlan& plan) {
                         ExpertsLaunches(choice, of.at(extents), call, limits, plan).write();
                       });
}

Plan moe_experts_reference_plan(Reference which, const MoeExpertsShape& shape, const Call& call) {
  const std::int64_t places = call.integers[kMoePlaces];
  const Pointer sorted = given(!shape.x_places, "sorted");
  Plan plan;
  plan.unit = {"templates/moe_experts/reference.cu", experts_defines(shape)};
  plan.unit.defines.emplace_back("EXACT", which == Reference::exact ? "1" : "0");
  plan.unit.defines.emplace_back("TILE", std::to_string(kExpertsReferenceTile));
  const bool is_whole = shape.part == MoeExpertsShape::Part::whole;
  if (is_whole) plan.scratch.push_back({"between", 4 * places * shape.intermediate});
  if (shape.has_up())
    begin_reference(plan, "moe_experts_reference_up", ceil_div(places, kExpertsReferenceTile) * shape.intermediate)
        .arguments = {{"x", Pointer{"x"}},
                      {"x_row", call.integers[kMoeRow]},
                      {"x_scale", given(shape.narrow(), "x_scale")},
                      {"sorted", sorted},
                      {"offsets", Pointer{"offsets"}},
                      {"weights", Pointer{"w_gate_up"}},
                      {"weight_row", call.integers[kExpertsUpRow]},
                      {"weight_expert", call.integers[kExpertsUpExpert]},
                      {"gate_up_scale", given(shape.narrow() || shape.packed, "gate_up_scale")},
                      {"gate_up_bias", given(shape.biased, "gate_up_bias")},
                      {"between", Pointer{is_whole ? "between" : "out"}},
                      {"tokens", to_int(shape.tokens)},
                      {"places", to_int(places)}};
  if (is_whole && shape.narrow() && which == Reference::baseline)
    begin_reference(plan, "moe_experts_reference_quantize", places * (shape.intermediate / kExpertsScaleGroup))
        .arguments = {{"between", Pointer{"between"}},
                      {"sorted", sorted},
                      {"offsets", Pointer{"offsets"}},
                      {"tokens", to_int(shape.tokens)},
                      {"places", to_int(places)}};
  if (shape.has_down()) add_down_reference(plan, shape, call);
  return plan;
}

}  // namespace moetune
