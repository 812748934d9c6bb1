#include "kernels/router_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moetune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Score = RouterShape::Score;

double clean(double logit) {
  return std::isnan(logit) ? -kInfinity : std::min(logit, double{std::numeric_limits<float>::max()});
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

  std::vector<double> weights(const std::vector<std::size_t>& ids, double scale) const {
    std::vector<double> weights;
    for (const std::size_t id : ids) weights.push_back(score(id));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const bool divides = shape_.renormalize || shape_.score == Score::topk_softmax;
    for (double& weight : weights) weight = scale * (!divides ? weight : sum > 0 ? weight / sum : 0);
    return weights;
  }

 private:
  std::size_t group_of(std::size_t id) const {
    return id / static_cast<std::size_t>(shape_.experts / shape_.groups);
  }

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
      scores.push_back(bias_ == nullptr ? unbiased : unbiased + static_cast<float>((*bias_)[id]));
    }
    return scores;
  }

  std::vector<bool> kept_groups(const std::vector<float>& scores) const {
    const auto size = static_cast<std::ptrdiff_t>(shape_.experts / shape_.groups);
    std::vector<float> sums;
    for (std::ptrdiff_t g = 0; g < shape_.groups; ++g) {
      std::vector<float> group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
      std::partial_sort(group.begin(), group.begin() + std::min<std::ptrdiff_t>(2, size), group.end(),
                        std::greater<>());
      sums.push_back(size > 1 ? group[0] + group[1] : group[0]);
    }
    std::vector<std::size_t> order(sums.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
    std::vector<bool> kept(sums.size(), false);
    for (std::int64_t i = 0; i < shape_.groups_kept; ++i) kept[order[static_cast<std::size_t>(i)]] = true;
    return kept;
  }

  const RouterShape& shape_;
  std::vector<double> logits_;
  const std::vector<double>* bias_;
  double shift_ = 0, sum_ = 0;
};

// Where each slot goes: the segment of its expert, or -1.
std::vector<double> segments_of(const RouterShape& shape, std::vector<double> ids,
                                const HostTensors& inputs) {
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
  const RoutingPlan plan =
      plan_routing(shape.sizes(), std::vector<std::int32_t>(segments.begin(), segments.end()));
  const auto add = [&](const char* name, const std::vector<std::int32_t>& values) {
    outputs[name] = {values.begin(), values.end()};
  };
  add("counts", plan.counts);
  add("offsets", plan.offsets);
  add("sorted", plan.sorted);
  add("inverse", plan.inverse);
  add("block_experts", plan.block_experts);
}

}  // namespace

HostTensors route_on_cpu(const RouterShape& shape, std::int64_t logits_row, double scale,
                         const HostTensors& inputs) {
  const std::vector<double>& logits = inputs.at("logits");
  const std::vector<double>* const bias = shape.bias ? &inputs.at("bias") : nullptr;
  HostTensors outputs;
  const auto live = shape.counted ? std::clamp<double>(inputs.at("token_count").front(), 0,
                                                       static_cast<double>(shape.tokens))
                                  : static_cast<double>(shape.tokens);
  for (std::ptrdiff_t token = 0; token < static_cast<std::ptrdiff_t>(live); ++token) {
    const auto row = logits.begin() + token * static_cast<std::ptrdiff_t>(logits_row);
    const Token one(shape, {row, row + static_cast<std::ptrdiff_t>(shape.experts)}, bias);
    const std::vector<std::size_t> ids = one.selected();
    const std::vector<double> weights = one.weights(ids, scale);
    outputs["ids"].insert(outputs["ids"].end(), ids.begin(), ids.end());
    outputs["weights"].insert(outputs["weights"].end(), weights.begin(), weights.end());
  }
  outputs["ids"].resize(static_cast<std::size_t>(shape.slots()), -1);
  outputs["weights"].resize(static_cast<std::size_t>(shape.slots()), 0);
  if (shape.plan) add_plan(shape, segments_of(shape, outputs.at("ids"), inputs), outputs);
  return outputs;
}

}  // namespace moetune
