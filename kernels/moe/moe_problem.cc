#include "kernels/moe/moe_problem.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostPlaces = std::int64_t{1} << 26;  // of so many tokens, slots and alignments
constexpr std::int64_t kVectorElements = 8;                  // 16 bytes of bf16

[[noreturn]] void refuse_moe(const std::string& kernel, const std::string& rule) {
  throw BadInput(kernel + ": " + rule);
}

// A model, or the part of it that one GPU has. `intermediate` is nullptr where only its parts are moe_experts' models,
// and `moved` is false for parts, whose rows moe_dispatch and moe_combine move as the whole model's.
struct MoeModel {
  const char* name;
  const char* doc;
  const char* hidden;
  const char* experts;
  const char* top_k;
  const char* intermediate;
  bool moved;
  const char* capacity;  // nullptr for all
  bool gpt_oss = false;  // its activation, and weights in mxfp4

  Preset preset(bool multiplied) const {
    Preset preset{name, doc, {{"hidden", hidden}, {"experts", experts}, {"top_k", top_k}}};
    if (multiplied) preset.dims.emplace_back("intermediate", intermediate);
    if (multiplied && gpt_oss) {
      preset.dims.emplace_back("w", "mxfp4");
      preset.dims.emplace_back("activation", "swigluoai");
    }
    if (capacity != nullptr) preset.dims.emplace_back("capacity", capacity);
    return preset;
  }
};

// With experts spread over 8 GPUs a token has one of its 8 on a GPU on average: an eighth of the slots.
constexpr MoeModel kMoeModels[] = {
    {"gpt-oss-20b", "gpt-oss-20b", "2880", "32", "4", "2880", true, nullptr, true},
    {"gpt-oss-120b", "gpt-oss-120b", "2880", "128", "4", "2880", true, nullptr, true},
    {"qwen3-30b-a3b", "Qwen3-30B-A3B", "2048", "128", "8", "768", true, nullptr},
    {"qwen3-235b-a22b", "Qwen3-235B-A22B", "4096", "128", "8", "1536", true, nullptr},
    {"deepseek-v3", "DeepSeek-V3 and R1", "7168", "256", "8", nullptr, true, nullptr},
    {"deepseek-v3-tp8", "DeepSeek-V3 and R1, an eighth of every expert", "7168", "256", "8", "256", false, nullptr},
    {"deepseek-v3-ep8", "DeepSeek-V3 and R1, an eighth of the experts", "7168", "32", "8", "2048", false, "13"},
    {"glm-4.5-air", "GLM-4.5-Air", "4096", "128", "8", "1408", false, nullptr},
    {"kimi-k2", "Kimi-K2", "7168", "384", "8", nullptr, true, nullptr},
    {"kimi-k2-tp8", "Kimi-K2, an eighth of every expert", "7168", "384", "8", "256", false, nullptr},
    {"mixtral-8x7b", "Mixtral 8x7B", "4096", "8", "2", "14336", true, nullptr},
};

std::vector<Preset> presets_of(bool multiplied) {
  std::vector<Preset> presets;
  for (const MoeModel& model : kMoeModels) {
    if (multiplied ? model.intermediate != nullptr : model.moved) presets.push_back(model.preset(multiplied));
  }
  return presets;
}

}  // namespace

MoeShape::MoeShape(const Problem& problem)
    : tokens(problem["tokens"]),
      hidden(problem["hidden"]),
      top_k(problem["top_k"]),
      sizes{tokens, problem["experts"], top_k, problem["align"], problem["capacity"]},
      skew(problem.dims.at("skew").text()) {}

RoutingPlan MoeShape::routing(std::int64_t places, std::uint64_t seed) const {
  RoutingPlan plan = plan_routing(sizes, draw_experts(sizes, skew, seed));
  plan.sorted.resize(static_cast<std::size_t>(places), static_cast<std::int32_t>(slots()));
  for (std::int32_t& place : plan.inverse) place = place < places ? place : -1;
  return plan;
}

ProblemSchema moe_schema() {
  return {
      integer_dimension("tokens", "tokens that were routed", 64, 1, kMostTokens),
      integer_dimension("hidden", "values of a token, a multiple of 8", 7168, 8, 16384),
      integer_dimension("experts", "experts that were chosen from", 256, 8, 1024),
      integer_dimension("top_k", "experts that each token got", 8, 1, 32),
      integer_dimension("align", "each expert's segment begins at a multiple of it: a power of two", 16, 1, 256),
      integer_dimension("capacity", "slots that an expert took, in percent of the even share; 0 for all", 0, 0,
                        100'000),
      named_dimension("skew", "how the inputs load the experts: evenly, by Zipf's law, or one of them with every token",
                      {"uniform", "zipf", "one"}),
  };
}

std::vector<Preset> moe_presets() { return presets_of(false); }
std::vector<Preset> moe_experts_presets() { return presets_of(true); }

void check_moe(const std::string& kernel, const Problem& problem) {
  const MoeShape shape(problem);
  const auto text = [&](const char* name) { return name + ("=" + problem.dims.at(name).text()); };
  if (shape.top_k > shape.sizes.experts) refuse_moe(kernel, text("top_k") + " is more than there are experts");
  if (shape.hidden % kVectorElements != 0) refuse_moe(kernel, text("hidden") + " is no multiple of 8");
  if ((shape.sizes.align & (shape.sizes.align - 1)) != 0) refuse_moe(kernel, text("align") + " is no power of two");
}

void check_moe_places(const std::string& kernel, std::int64_t places) {
  if (places < 1 || places > kMostPlaces)
    refuse_moe(kernel,
               "places=" + std::to_string(places) + " is out of range (from 1 to " + std::to_string(kMostPlaces) + ")");
}

void check_moe_row(const std::string& kernel, const char* name, std::int64_t row, std::int64_t hidden) {
  if (row < hidden || row > (std::int64_t{1} << 20) || row % kVectorElements != 0)
    refuse_moe(kernel, name + ("=" + std::to_string(row)) + " must be a multiple of 8 that holds " +
                           std::to_string(hidden) + " values");
}

Buffer MoeMatrices::buffer(const char* name, DType dtype) const {
  Buffer buffer{
      .name = name, .dtype = dtype, .elements = (count - 1) * matrix + (rows - 1) * row + columns, .rotates = true};
  buffer.fill.kind = Fill::Kind::normal;
  for (std::int64_t m = 0; m < count; ++m) {
    const std::int64_t begin = m * matrix, last = begin + (rows - 1) * row + columns;
    for (std::int64_t r = 0; row > columns && r + 1 < rows; ++r)
      buffer.fill.poison.push_back({begin + r * row + columns, row - columns});
    if (m + 1 < count && last < begin + matrix) buffer.fill.poison.push_back({last, begin + matrix - last});
  }
  return buffer;
}

Buffer moe_x(const MoeShape& shape, DType dtype, std::int64_t row) {
  Buffer x = MoeMatrices{1, shape.tokens, shape.hidden, row, 0}.buffer("x", dtype);
  x.fresh = true;
  return x;
}

Buffer moe_list(const char* name, std::vector<std::int32_t> integers) {
  Buffer list{.name = name, .dtype = DType::i32, .elements = static_cast<std::int64_t>(integers.size())};
  list.fill = {.kind = Fill::Kind::integers, .integers = std::move(integers)};
  return list;
}

Buffer moe_weights(const MoeShape& shape) {
  Buffer weights{.name = "weights", .elements = shape.slots()};
  const float share = 1 / static_cast<float>(shape.top_k);
  weights.fill = {.kind = Fill::Kind::columns, .scale = share / 4, .shifts = {share}};
  return weights;
}

Buffer moe_out(const MoeShape& shape, DType dtype, std::int64_t row, const Tolerance& tolerance) {
  return {.name = "out",
          .dtype = dtype,
          .elements = (shape.tokens - 1) * row + shape.hidden,
          .role = Role::output,
          .check = OutputCheck::within(tolerance)};
}

MoeTeams::MoeTeams(const Config& config)
    : warps(config.number("warps")),
      rows_of_block(config.is("team", "warp") ? warps : 1),
      splits(config.number("splits")),
      blocks_per_sm(config.number("blocks_per_sm")) {}

void MoeTeams::shape(Launch& launch, std::int64_t rows, const DeviceLimits& limits) const {
  std::int64_t blocks = ceil_div(rows, rows_of_block);
  if (blocks_per_sm > 0) blocks = std::min(blocks, ceil_div(blocks_per_sm * limits.sm_count, splits));
  launch.grid[0] = static_cast<std::uint32_t>(blocks);
  launch.grid[1] = static_cast<std::uint32_t>(splits);
  launch.block[0] = static_cast<std::uint32_t>(32 * warps);
  launch.programmatic_dependent = limits.compute_capability >= 90;
}

}  // namespace moetune
