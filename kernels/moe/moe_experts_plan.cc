#include "kernels/moe/moe_experts_plan.h"

#include <algorithm>

#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::int64_t kExpertsReferenceThreads = 256;
constexpr std::int64_t kExpertsCombineThreads = 256, kCombineValues = 8;  // templates/moe_experts/combine.cuh
constexpr std::int64_t kChunk = 64;             // values that the 128-byte swizzle keeps together
constexpr std::int64_t kExpertsBarriers = 128;  // bytes: templates/moe_experts/product.cuh
constexpr std::int64_t kExpertsWarp = 32;

using Defines = std::vector<std::pair<std::string, std::string>>;

std::uint32_t to_unsigned(std::int64_t value) { return static_cast<std::uint32_t>(value); }
std::int32_t to_int(std::int64_t value) { return static_cast<std::int32_t>(value); }

Defines experts_defines(const MoeExpertsShape& shape) {
  return {{"DTYPE", shape.dtype == DType::bf16 ? "Bf16" : "Fp16"},
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
  ExpertsChoice(const Config& config, const MoeExpertsShape& shape)
      : wgmma(config.is("body", "wgmma")),
        persistent(config.is("schedule", "persistent")),
        rows(config.number("rows")),
        depth(config.number("depth")),
        warps(config.number("warps")),
        residents(config.number("residents")),
        up{2,
           config.number("up_columns"),
           config.number("up_stages"),
           shape.intermediate,
           shape.hidden,
           wgmma ? 3 : 0},
        down{1,
             config.number("down_columns"),
             config.number("down_stages"),
             shape.hidden,
             shape.intermediate,
             wgmma ? 1 : 0},
        list_bytes(4 * (2 * (shape.experts() + 1) + kExpertsWarp)) {}

  std::int64_t shared_bytes(const ExpertsProduct& product) const {
    return product.stages * depth * 2 * (rows + product.matrices * product.columns) + kExpertsBarriers +
           list_bytes;
  }

  // Blocks for whatever routing fills no more than the places. An expert's last tile of rows may be nearly empty.
  std::int64_t blocks(const ExpertsProduct& product, const MoeExpertsShape& shape, std::int64_t places,
                      const DeviceLimits& limits) const {
    const std::int64_t filled = std::min(shape.experts(), std::min(shape.slots(), places));
    const std::int64_t tiles = (places + filled * (rows - 1)) / rows * product.column_tiles();
    return persistent ? std::min(tiles, residents * limits.sm_count) : tiles;
  }

  // Columns of one tensor copy of weights: those of a warpgroup.
  std::int64_t own_columns(const ExpertsProduct& product) const {
    const std::int64_t groups = warps / 4;
    return product.columns / (groups / std::min(groups, rows / 64));
  }

  bool wgmma, persistent;
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
  unit.defines.emplace_back("STREAM", config.is("weights", "stream") ? "1" : "0");
  unit.defines.emplace_back("SHARED_UP", std::to_string(choice.shared_bytes(choice.up)));
  unit.defines.emplace_back("SHARED_DOWN", std::to_string(choice.shared_bytes(choice.down)));
  return unit;
}

// Weights as [expert][matrix][column][K]: a box is a chunk of K of a warpgroup's columns, those of each matrix behind
// each other, in the order that the 128-byte swizzle wants.
TensorMap weight_map(const char* buffer, DType dtype, const ExpertsProduct& product, std::int64_t own_columns,
                     std::int64_t experts, std::int64_t row, std::int64_t expert) {
  const auto count = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(2 * elements); };
  TensorMap map;
  map.buffer = buffer;
  map.dtype = dtype;
  map.swizzle = TensorMap::Swizzle::b128;
  map.dims = {count(product.depth), count(product.width), count(product.matrices), count(experts), 1};
  map.strides = {bytes(row), bytes(product.width * row), bytes(expert), bytes(expert)};
  map.box = {to_unsigned(kChunk), to_unsigned(own_columns), to_unsigned(product.matrices), 1, 1};
  return map;
}

// `between` as [place][value]: a box is a chunk of a quarter of a tile's rows.
TensorMap between_map(const ExpertsChoice& choice, const MoeExpertsShape& shape, std::int64_t places) {
  const auto size = static_cast<std::uint64_t>(2 * shape.intermediate);
  TensorMap map;
  map.buffer = "between";
  map.dtype = shape.dtype;
  map.swizzle = TensorMap::Swizzle::b128;
  map.dims = {static_cast<std::uint64_t>(shape.intermediate), static_cast<std::uint64_t>(places), 1, 1, 1};
  map.strides = {size, size, size, size};
  map.box = {to_unsigned(kChunk), to_unsigned(choice.rows / 4), 1, 1, 1};
  return map;
}

void shape_product(Launch& launch, const ExpertsChoice& choice, const ExpertsProduct& product,
                   const MoeExpertsShape& shape, const Call& call, const DeviceLimits& limits) {
  launch.grid[0] = to_unsigned(choice.blocks(product, shape, call.integers[kMoePlaces], limits));
  launch.block[0] = to_unsigned(kExpertsWarp * (choice.warps + product.extra_warps));
  launch.dynamic_shared = to_unsigned(choice.shared_bytes(product));
  launch.programmatic_dependent = limits.compute_capability >= 90;
}

// The weights of a product: through the copy engine, or an address and strides.
void add_weights(Launch& launch, const char* buffer, const ExpertsChoice& choice,
                 const ExpertsProduct& product, const MoeExpertsShape& shape, std::int64_t row,
                 std::int64_t expert) {
  if (choice.wgmma) {
    launch.arguments.push_back(
        {"weights", weight_map(buffer, shape.dtype, product, choice.own_columns(product), shape.experts(),
                               row, expert)});
  } else {
    launch.arguments.push_back({"weights", Pointer{buffer}});
    launch.arguments.push_back({"weight_row", row});
    launch.arguments.push_back({"weight_expert", expert});
  }
}

void fill_up(Launch& launch, const ExpertsChoice& choice, const MoeExpertsShape& shape, const Call& call,
             const DeviceLimits& limits) {
  launch.entry = "moe_experts_up";
  shape_product(launch, choice, choice.up, shape, call, limits);
  const auto add = [&] {
    add_weights(launch, "w_gate_up", choice, choice.up, shape, call.integers[kExpertsUpRow],
                call.integers[kExpertsUpExpert]);
  };
  if (choice.wgmma) add();
  launch.arguments.push_back({"x", Pointer{"x"}});
  launch.arguments.push_back({"x_row", call.integers[kMoeRow]});
  launch.arguments.push_back({"sorted", Pointer{"sorted"}});
  launch.arguments.push_back({"offsets", Pointer{"offsets"}});
  if (!choice.wgmma) add();
  launch.arguments.push_back({"between", Pointer{"between"}});
  launch.arguments.push_back({"tokens", to_int(shape.tokens)});
  launch.arguments.push_back({"places", to_int(call.integers[kMoePlaces])});
}

void fill_down(Launch& launch, const ExpertsChoice& choice, const MoeExpertsShape& shape, const Call& call,
               const DeviceLimits& limits) {
  launch.entry = "moe_experts_down";
  shape_product(launch, choice, choice.down, shape, call, limits);
  const auto add = [&] {
    add_weights(launch, "w_down", choice, choice.down, shape, call.integers[kExpertsDownRow],
                call.integers[kExpertsDownExpert]);
  };
  if (choice.wgmma) {
    add();
    launch.arguments.push_back({"rows", between_map(choice, shape, call.integers[kMoePlaces])});
  } else {
    launch.arguments.push_back({"between", Pointer{"between"}});
  }
  launch.arguments.push_back({"offsets", Pointer{"offsets"}});
  if (!choice.wgmma) add();
  launch.arguments.push_back({"products", Pointer{"products"}});
  launch.arguments.push_back({"places", to_int(call.integers[kMoePlaces])});
}

void fill_combine(Launch& launch, const MoeExpertsShape& shape, const Call& call,
                  const DeviceLimits& limits) {
  launch.entry = "moe_experts_combine";
  launch.grid[0] =
      to_unsigned(ceil_div(shape.tokens * (shape.hidden / kCombineValues), kExpertsCombineThreads));
  launch.block[0] = to_unsigned(kExpertsCombineThreads);
  launch.programmatic_dependent = limits.compute_capability >= 90;
  launch.arguments = {{"products", Pointer{"products"}},
                      {"inverse", Pointer{"inverse"}},
                      {"weights", Pointer{"weights"}},
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
                         const MoeExpertsShape shape = of.at(extents);
                         const std::int64_t places = call.integers[kMoePlaces];
                         plan.scratch.push_back({"between", 2 * places * shape.intermediate});
                         plan.scratch.push_back({"products", 2 * places * shape.hidden});
                         fill_up(plan.launches.emplace_back(), choice, shape, call, limits);
                         fill_down(plan.launches.emplace_back(), choice, shape, call, limits);
                         fill_combine(plan.launches.emplace_back(), shape, call, limits);
                       });
}

Plan moe_experts_reference_plan(Reference which, const MoeExpertsShape& shape, const Call& call) {
  const std::int64_t places = call.integers[kMoePlaces];
  Plan plan;
  plan.unit = {"templates/moe_experts/reference.cu", experts_defines(shape)};
  plan.unit.defines.emplace_back("EXACT", which == Reference::exact ? "1" : "0");
  plan.scratch.push_back({"between", 4 * places * shape.intermediate});
  Launch& up = plan.launches.emplace_back();
  up.entry = "moe_experts_reference_up";
  up.grid[0] = to_unsigned(ceil_div(places * shape.intermediate, kExpertsReferenceThreads));
  up.block[0] = to_unsigned(kExpertsReferenceThreads);
  up.arguments = {{"x", Pointer{"x"}},
                  {"x_row", call.integers[kMoeRow]},
                  {"sorted", Pointer{"sorted"}},
                  {"offsets", Pointer{"offsets"}},
                  {"weights", Pointer{"w_gate_up"}},
                  {"weight_row", call.integers[kExpertsUpRow]},
                  {"weight_expert", call.integers[kExpertsUpExpert]},
                  {"between", Pointer{"between"}},
                  {"tokens", to_int(shape.tokens)},
                  {"places", to_int(places)}};
  Launch& down = plan.launches.emplace_back();
  down.entry = "moe_experts_reference_down";
  down.grid[0] = to_unsigned(ceil_div(shape.tokens * shape.hidden, kExpertsReferenceThreads));
  down.block[0] = to_unsigned(kExpertsReferenceThreads);
  down.arguments = {{"between", Pointer{"between"}},
                    {"offsets", Pointer{"offsets"}},
                    {"inverse", Pointer{"inverse"}},
                    {"shares", Pointer{"weights"}},
                    {"weights", Pointer{"w_down"}},
                    {"weight_row", call.integers[kExpertsDownRow]},
                    {"weight_expert", call.integers[kExpertsDownExpert]},
                    {"out", Pointer{"out"}},
                    {"out_row", call.integers[kExpertsOutRow]},
                    {"tokens", to_int(shape.tokens)}};
  return plan;
}

}  // namespace moetune
