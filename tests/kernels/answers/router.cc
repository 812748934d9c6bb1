#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/moe/router_plan.h"
#include "kernels/moe/routing.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

constexpr std::size_t kNoExpert = ~std::size_t{0};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Score = RouterShape::Score;

double clean(double logit) {
  return std::isnan(logit) ? -kInfinity : std::min(logit, double{std::numeric_limits<float>::max()});
}

// The rank of a score among all f32 numbers. Those too small to be normal count as 0, as the GPU rounds them.
std::int64_t place_among_floats(float score) {
  constexpr auto kLeast = std::bit_cast<std::int32_t>(std::numeric_limits<float>::min());
  const std::int64_t magnitude = std::bit_cast<std::int32_t>(std::abs(score));
  const std::int64_t place = std::max<std::int64_t>(0, magnitude - kLeast + 1);
  return score < 0 ? -place : place;
}

// Whether rounding does not explain that `b` comes first.
bool is_clearly_better(float a, float b) {
  constexpr std::int64_t kUnits = 4;
  return place_among_floats(a) > place_among_floats(b) + kUnits;
}

class Token {
 public:
  Token(const RouterShape& shape, std::vector<double> logits, const std::vector<double>* bias)
      : shape_(shape), logits_(std::move(logits)), bias_(bias) {
    std::transform(logits_.begin(), logits_.end(), logits_.begin(), clean);
    const double largest = *std::max_element(logits_.begin(), logits_.end());
    shift_ = largest == -kInfinity ? 0 : largest;
    for (const double logit : logits_) sum_ += std::exp(logit - shift_);
  }

  // Best first; of equals the lower id.
  std::vector<std::size_t> selected() const {
    std::vector<std::size_t> ids(logits_.size());
    std::iota(ids.begin(), ids.end(), 0);
    const std::vector<float> scores = selection();
    const std::vector<bool> kept = kept_groups(scores);
    const auto better = [&](std::size_t a, std::size_t b) {
      const bool a_kept = kept[group_of(a)], b_kept = kept[group_of(b)];
      return a_kept != b_kept ? a_kept : scores[a] > scores[b];
    };
    std::stable_sort(ids.begin(), ids.end(), better);
    ids.resize(static_cast<std::size_t>(shape_.top_k));
    return ids;
  }

  // Whether rounding explains that these are selected.
  bool accepts(const std::vector<std::size_t>& ids) const {
    const std::vector<float> scores = selection(), sums = group_sums(scores);
    std::vector<bool> is_chosen(logits_.size(), false), is_from(sums.size(), false);
    for (const std::size_t id : ids) {
      if (id >= logits_.size() || is_chosen[id] || is_clearly_dropped(sums, group_of(id))) return false;
      is_chosen[id] = is_from[group_of(id)] = true;
    }
    if (std::count(is_from.begin(), is_from.end(), true) > shape_.groups_kept) return false;
    for (std::size_t j = 1; j < ids.size(); ++j) {
      if (is_clearly_better(scores[ids[j]], scores[ids[j - 1]])) return false;
    }
    for (std::size_t id = 0; id < scores.size(); ++id) {
      const std::size_t group = group_of(id);
      const bool is_kept = is_from[group] || is_clearly_kept(sums, group);
      if (!is_chosen[id] && is_kept && is_clearly_better(scores[id], scores[ids.back()])) return false;
    }
    return true;
  }

  std::vector<double> weights(const std::vector<std::size_t>& ids, double scale) const {
    std::vector<double> weights;
    for (const std::size_t id : ids) weights.push_back(score(id));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const bool divides = shape_.renormalize || shape_.score == Score::topk_softmax;
    for (double& weight : weights) weight = scale * (!divides ? weight : sum > 0 ? weight / sum : 0);
    return weights;
  }

 private:
  std::size_t group_of(std::size_t id) const { return id / static_cast<std::size_t>(shape_.experts / shape_.groups); }

  double score(std::size_t id) const {
    const double logit = logits_[id];
    switch (shape_.score) {
      case Score::sigmoid:
        return 1 / (1 + std::exp(-logit));
      case Score::sqrt_softplus:
        return std::sqrt(std::max(logit, 0.0) + std::log1p(std::exp(-std::abs(logit))));
      case Score::topk_softmax:
        return std::exp(logit - shift_);
      case Score::softmax:
        break;
    }
    return sum_ > 0 ? std::exp(logit - shift_) / sum_ : 0;
  }

  std::vector<float> selection() const {
    const bool by_logit = shape_.score == Score::topk_softmax ||
                          (shape_.score == Score::softmax && bias_ == nullptr && shape_.groups == 1);
    std::vector<float> scores;
    for (std::size_t id = 0; id < logits_.size(); ++id) {
      const auto unbiased = static_cast<float>(by_logit ? logits_[id] : score(id));
      const float biased = bias_ == nullptr ? unbiased : unbiased + static_cast<float>((*bias_)[id]);
      scores.push_back(std::isnan(biased) ? -std::numeric_limits<float>::infinity() : biased);
    }
    return scores;
  }

  std::vector<float> group_sums(const std::vector<float>& scores) const {
    const auto size = static_cast<std::ptrdiff_t>(shape_.experts / shape_.groups);
    std::vector<float> sums;
    for (std::ptrdiff_t g = 0; g < shape_.groups; ++g) {
      std::vector<float> group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
      std::partial_sort(group.begin(), group.begin() + std::min<std::ptrdiff_t>(2, size), group.end(),
                        std::greater<>());
      const float sum = size > 1 ? group[0] + group[1] : group[0];
      sums.push_back(std::isnan(sum) ? -std::numeric_limits<float>::infinity() : sum);
    }
    return sums;
  }

  // So many groups are better, whatever was rounded.
  bool is_clearly_dropped(const std::vector<float>& sums, std::size_t group) const {
    return std::count_if(sums.begin(), sums.end(), [&](float sum) { return is_clearly_better(sum, sums[group]); }) >=
           shape_.groups_kept;
  }
  bool is_clearly_kept(const std::vector<float>& sums, std::size_t group) const {
    return std::count_if(sums.begin(), sums.end(), [&](float sum) { return !is_clearly_better(sums[group], sum); }) <=
           shape_.groups_kept;  // itself is one of them
  }

  std::vector<bool> kept_groups(const std::vector<float>& scores) const {
    const std::vector<float> sums = group_sums(scores);
    std::vector<std::size_t> order(sums.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
    std::vector<bool> kept(sums.size(), false);
    for (std::int64_t i = 0; i < shape_.groups_kept; ++i) kept[order[static_cast<std::size_t>(i)]] = true;
    return kept;
  }

  const RouterShape& shape_;
  std::vector<double> logits_;
  const std::vector<double>* bias_;
  double shift_ = 0, sum_ = 0;
};

// The segment of each slot's expert, or -1.
std::vector<double> segments_of(const RouterShape& shape, std::vector<double> ids, const HostTensors& inputs) {
  if (!shape.mapped) return ids;
  const std::vector<double>& map = inputs.at("expert_map");
  for (double& id : ids) {
    const double local = id < 0 ? -1 : map[static_cast<std::size_t>(id)];
    id = local < static_cast<double>(shape.experts) ? local : -1;
  }
  return ids;
}

// Counts, offsets and permutations of given segments.
void add_plan(const RouterShape& shape, const std::vector<double>& segments, HostTensors& outputs) {
  const RoutingPlan plan = plan_routing(shape.sizes(), std::vector<std::int32_t>(segments.begin(), segments.end()));
  const auto add = [&](const char* name, std::span<const std::int32_t> values) {
    outputs[name] = {values.begin(), values.end()};
  };
  using enum RouterShape::Layout;
  add("counts", plan.counts);
  if (shape.segment == 0) add("offsets", plan.offsets);
  add("sorted", plan.sorted);
  add("inverse", plan.inverse);
  if (shape.layout == blocks) add("block_experts", plan.block_experts);
  if (shape.layout == rows) add("row_experts", plan.row_experts);
  if (shape.layout == ends) add("ends", std::span(plan.offsets).subspan(1));
  if (!shape.dropped) return;
  for (std::size_t slot = 0; slot < segments.size(); ++slot)
    outputs["dropped"].push_back(segments[slot] >= 0 && plan.inverse[slot] < 0);
}

// Adds the tokens that go to each rank, and how many slots each expert has.
void add_ranks(const RouterShape& shape, const std::vector<double>& ids, HostTensors& outputs) {
  const auto ranks = static_cast<std::size_t>(shape.ranks), top_k = static_cast<std::size_t>(shape.top_k);
  std::vector<double>&counts = outputs["counts"], &tokens = outputs["tokens_per_rank"], &in_rank = outputs["in_rank"];
  counts.resize(static_cast<std::size_t>(shape.experts), 0);
  tokens.resize(ranks, 0);
  in_rank.resize(ids.size() / top_k * ranks, 0);
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    if (ids[slot] < 0) continue;
    const auto expert = static_cast<std::size_t>(ids[slot]);
    ++counts[expert];
    double& mark = in_rank[slot / top_k * ranks + expert / (counts.size() / ranks)];
    if (mark == 0) ++tokens[expert / (counts.size() / ranks)];
    mark = 1;
  }
}

HostTensors route_all(const RouterShape& shape, std::int64_t logits_row, double scale, const HostTensors& inputs,
                      const std::vector<double>* chosen) {
  const std::vector<double>& logits = inputs.at("logits");
  const std::vector<double>* const bias = shape.bias ? &inputs.at("bias") : nullptr;
  HostTensors outputs;
  const auto live = shape.counted
                        ? std::clamp<double>(inputs.at("token_count").front(), 0, static_cast<double>(shape.tokens))
                        : static_cast<double>(shape.tokens);
  for (std::ptrdiff_t token = 0; token < static_cast<std::ptrdiff_t>(live); ++token) {
    const auto row = logits.begin() + token * static_cast<std::ptrdiff_t>(logits_row);
    const Token one(shape, {row, row + static_cast<std::ptrdiff_t>(shape.experts)}, bias);
    std::vector<std::size_t> ids;
    if (chosen != nullptr) {
      const auto first = chosen->begin() + token * static_cast<std::ptrdiff_t>(shape.top_k);
      std::transform(first, first + static_cast<std::ptrdiff_t>(shape.top_k), std::back_inserter(ids),
                     [](double id) { return id < 0 ? kNoExpert : static_cast<std::size_t>(id); });
    }
    if (chosen == nullptr || !one.accepts(ids)) ids = one.selected();
    const std::vector<double> weights = one.weights(ids, scale);
    outputs["ids"].insert(outputs["ids"].end(), ids.begin(), ids.end());
    outputs["weights"].insert(outputs["weights"].end(), weights.begin(), weights.end());
  }
  outputs["ids"].resize(static_cast<std::size_t>(shape.slots()), -1);
  outputs["weights"].resize(static_cast<std::size_t>(shape.slots()), 0);
  if (shape.has_ranks()) add_ranks(shape, outputs.at("ids"), outputs);
  if (shape.has_plan()) add_plan(shape, segments_of(shape, outputs.at("ids"), inputs), outputs);
  return outputs;
}

}  // namespace

HostTensors route_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  return route_all(RouterShape(problem), call.integers[kLogitsRow], call.reals[kRouterScale], inputs, nullptr);
}

HostTensors route_on_cpu_as(const RouterShape& shape, std::int64_t logits_row, double scale, const HostTensors& inputs,
                            const std::vector<double>& ids) {
  return route_all(shape, logits_row, scale, inputs, &ids);
}

}  // namespace moetune
