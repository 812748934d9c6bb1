#include "kernels/moe/router_problem.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {
namespace {

const std::vector<std::string> kScores = {"softmax", "topk_softmax", "sigmoid", "sqrt_softplus"};
const std::vector<std::string> kOutputs = {"plan", "weights", "ranks"};
const std::vector<std::string> kLayouts = {"blocks", "rows", "ends", "masked"};
constexpr std::int64_t kLongestSegment = 65536;

[[noreturn]] void refuse_router(const std::string& rule) { throw BadInput("router: " + rule); }

// The enumerator whose name the problem's dimension has.
template <typename Enum>
Enum named(const Problem& problem, const char* dimension, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (problem.is(dimension, names[i])) return static_cast<Enum>(i);
  }
  refuse_router(std::string("an unknown ") + dimension);
}

}  // namespace

RouterShape::RouterShape(const Problem& problem)
    : tokens(problem["tokens"]),
      experts(problem["experts"]),
      top_k(problem["top_k"]),
      groups(problem["groups"]),
      groups_kept(problem["groups_kept"]),
      align(problem["align"]),
      capacity(problem["capacity"]),
      segment(problem["segment"]),
      ranks(problem["ranks"]),
      score(named<Score>(problem, "score", kScores)),
      outputs(named<Outputs>(problem, "outputs", kOutputs)),
      layout(named<Layout>(problem, "layout", kLayouts)),
      dtype(problem.is("dtype", "fp32")   ? DType::f32
            : problem.is("dtype", "bf16") ? DType::bf16
                                          : DType::f16),
      ids(problem.is("ids", "i64") ? DType::i64 : DType::i32),
      bias(problem.is("bias", "correction")),
      renormalize(problem.is("renormalize", "yes")),
      dropped(problem.is("dropped", "mask")),
      mapped(problem.is("map", "local")),
      counted(problem.is("count", "device")),
      skew(problem.dims.at("skew").text()) {}

RouterShape RouterShape::at(const Extents& extents) const {
  RouterShape other = *this;
  other.tokens = extents[0];
  return other;
}

std::vector<float> RouterShape::load_shifts() const {
  std::vector<float> shifts(static_cast<std::size_t>(experts), 0);
  if (skew == "one") shifts.front() = 64;
  if (skew == "zipf") {
    for (std::size_t e = 0; e < shifts.size(); ++e)
      shifts[e] = -std::log(static_cast<float>(1 + e * 37 % shifts.size()));  // the busy ones lie apart
  }
  return shifts;
}

std::vector<std::int32_t> RouterShape::sample_map() const {
  std::vector<std::int32_t> map(static_cast<std::size_t>(experts), -1);
  for (std::size_t e = 0; e < map.size(); e += 2) map[e] = static_cast<std::int32_t>(e / 2);
  return map;
}

const ProblemSchema& router_schema() {
  static const ProblemSchema schema = {
      integer_dimension("tokens", "tokens to route", 64, 1, kMostTokens),
      integer_dimension("experts", "experts to choose from", 256, 8, 1024),
      integer_dimension("top_k", "experts that each token gets", 8, 1, 32),
      named_dimension("score",
                      "softmax over all experts, softmax over the selected (topk_softmax), sigmoid, or the root of "
                      "softplus",
                      kScores),
      named_dimension("bias", "whether a correction bias of each expert is added for the selection alone",
                      {"none", "correction"}),
      integer_dimension(
          "groups", "groups of neighbouring experts; the experts of most are dropped before the selection", 1, 1, 32),
      integer_dimension("groups_kept", "groups whose experts stay: the best by the sum of their two best scores", 1, 1,
                        32),
      named_dimension("renormalize", "whether a token's weights are divided by their sum", {"yes", "no"}),
      named_dimension("dtype", "type of the logits", {"fp32", "bf16", "fp16"}),
      named_dimension("outputs",
                      "plan: ids, weights, counts, offsets, permutation and its inverse; weights: ids and weights "
                      "alone; ranks: ids, weights, counts, and which tokens go to which rank",
                      kOutputs),
      named_dimension("layout",
                      "what tells a grouped GEMM whose places are whose. blocks: the expert of each block of places; "
                      "rows: the expert of each place; ends: where each segment ends; masked: nothing, all segments "
                      "have as many places",
                      kLayouts),
      named_dimension("ids", "type of the ids", {"i32", "i64"}),
      integer_dimension("align", "each expert's segment begins at a multiple of it: a power of two", 16, 1, 256),
      integer_dimension("segment", "of layout=masked: places of every expert's segment", 0, 0, kLongestSegment),
      integer_dimension("capacity", "slots that an expert takes, in percent of the even share; 0 for all", 0, 0,
                        100'000),
      named_dimension("dropped", "mask: a mask of the slots that an expert had no room for", {"none", "mask"}),
      integer_dimension("ranks", "of outputs=ranks: over which the experts are spread evenly", 1, 1, 512),
      named_dimension("map", "local: segments are those of local ids, which an expert map gives; others get no place",
                      {"none", "local"}),
      named_dimension("count",
                      "device: how many of the tokens are routed is read on the device; the others get ids of -1",
                      {"host", "device"}),
      named_dimension("skew", "how the inputs load the experts: evenly, by Zipf's law, or one of them with every token",
                      {"uniform", "zipf", "one"}),
  };
  return schema;
}

const std::vector<Preset>& router_presets() {
  static const std::vector<Preset> presets = {
      {"gpt-oss-20b", "gpt-oss-20b", {{"experts", "32"}, {"top_k", "4"}, {"score", "topk_softmax"}, {"dtype", "bf16"}}},
      {"gpt-oss-120b",
       "gpt-oss-120b",
       {{"experts", "128"}, {"top_k", "4"}, {"score", "topk_softmax"}, {"dtype", "bf16"}}},
      {"qwen3-30b-a3b", "Qwen3-30B-A3B", {{"experts", "128"}, {"top_k", "8"}, {"score", "softmax"}, {"dtype", "bf16"}}},
      {"qwen3-235b-a22b",
       "Qwen3-235B-A22B",
       {{"experts", "128"}, {"top_k", "8"}, {"score", "softmax"}, {"dtype", "bf16"}}},
      {"deepseek-v3",
       "DeepSeek-V3 and R1",
       {{"experts", "256"},
        {"top_k", "8"},
        {"score", "sigmoid"},
        {"bias", "correction"},
        {"groups", "8"},
        {"groups_kept", "4"}}},
      {"kimi-k2", "Kimi-K2", {{"experts", "384"}, {"top_k", "8"}, {"score", "sigmoid"}, {"bias", "correction"}}},
      {"mixtral-8x7b", "Mixtral 8x7B", {{"experts", "8"}, {"top_k", "2"}, {"score", "softmax"}, {"dtype", "bf16"}}},
      {"lab",
       "a laboratory's router: 4096 tokens, 32 experts, top 2, capacity factor 1.25",
       {{"tokens", "4096"}, {"experts", "32"}, {"top_k", "2"}, {"score", "softmax"}, {"capacity", "125"}}},
  };
  return presets;
}

void check_router(const Problem& problem) {
  const RouterShape shape(problem);
  const auto text = [&](const char* name) { return name + ("=" + problem.dims.at(name).text()); };
  if (shape.top_k > shape.experts) refuse_router(text("top_k") + " is more than there are experts");
  if (shape.experts % shape.groups != 0) refuse_router(text("experts") + " is no multiple of " + text("groups"));
  if (shape.groups_kept > shape.groups) refuse_router(text("groups_kept") + " is more than " + text("groups"));
  if (shape.experts / shape.groups * shape.groups_kept < shape.top_k)
    refuse_router("the groups that are kept have fewer experts than " + text("top_k"));
  const auto needs_plan = [&](bool asked, const char* what) {
    if (asked && !shape.has_plan()) refuse_router(what + (" places, which " + text("outputs") + " has none of"));
  };
  needs_plan(shape.mapped, "map=local changes");
  needs_plan(shape.layout != RouterShape::Layout::blocks, "a layout is one of");
  needs_plan(shape.dropped, "dropped=mask is about");
  if (shape.has_layout(RouterShape::Layout::masked) != (shape.segment > 0))
    refuse_router("layout=masked and segment=PLACES go together");
  if (shape.dropped && shape.capacity == 0 && shape.segment == 0)
    refuse_router("dropped=mask needs a capacity or a segment, without which nothing is dropped");
  if (shape.ranks > 1 && !shape.has_ranks()) refuse_router(text("ranks") + " is for outputs=ranks");
  if (shape.experts % shape.ranks != 0) refuse_router(text("experts") + " is no multiple of " + text("ranks"));
  if (shape.has_ranks() && shape.capacity > 0) refuse_router("outputs=ranks has no places that a capacity could limit");
  if (shape.counted && shape.capacity > 0)
    refuse_router("a capacity is a share of the tokens, which count=device does not know on the host");
  if (shape.align < 1 || (shape.align & (shape.align - 1)) != 0) refuse_router(text("align") + " is no power of two");
}

const char* RouterShape::grouping() const {
  static constexpr const char* kNames[] = {"block_experts", "row_experts", "ends", nullptr};
  return has_plan() ? kNames[static_cast<std::size_t>(layout)] : nullptr;
}

std::int64_t RouterShape::grouping_elements() const {
  return layout == Layout::blocks ? places() / align : layout == Layout::rows ? places() : experts;
}

std::string_view router_layout_name(RouterShape::Layout layout) { return kLayouts[static_cast<std::size_t>(layout)]; }

std::string_view router_score_name(RouterShape::Score score) { return kScores[static_cast<std::size_t>(score)]; }

}  // namespace moetune
