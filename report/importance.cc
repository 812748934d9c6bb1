#include "report/importance.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace moetune {
namespace {

// Pairs are looked at among so many factors of the largest main effects; a leaf visits every pair of their levels.
constexpr std::size_t kPairedFactors = 24;
constexpr double kMostPairCells = 6'000;

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

// One tree with the levels of each factor that every leaf admits, and which part of all these are.
class Marginals {
 public:
  Marginals(const Tree& tree, const std::vector<Factor>& factors) : tree_(tree), factors_(factors) {
    parts_.reserve(tree.leaves.size() * factors.size());
    for (const Leaf& leaf : tree.leaves) {
      double weight = 1;
      std::size_t offset = 0;
      for (const Factor& factor : factors) {
        const std::size_t before = admitted_.size(), count = factor.levels.size();
        begins_.push_back(before);
        for (std::size_t l = 0; l < count; ++l)
          if (leaf.admits[offset + l]) admitted_.push_back(static_cast<Level>(l));
        offset += count;
        parts_.push_back(static_cast<double>(admitted_.size() - before) / static_cast<double>(count));
        weight *= parts_.back();
      }
      weights_.push_back(weight);
      mean_ += weight * leaf.value;
      square_ += weight * leaf.value * leaf.value;
    }
    begins_.push_back(admitted_.size());
  }

  double mean() const { return mean_; }
  double variance() const { return std::max(square_ - mean_ * mean_, 0.0); }

  std::vector<double> of(std::size_t f) const {
    std::vector<double> by_level(factors_[f].levels.size(), 0);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const Leaf& leaf = tree_.leaves[i];
      const double share = leaf.value * weights_[i] / part(i, f);
      for (const Level l : admitted(i, f)) by_level[l] += share;
    }
    return by_level;
  }

  // The variance that two factors cause beyond their main effects. A leaf that admits every level of one of them adds
  // the same to both sides of that difference, so only leaves that both factors bound are summed.
  double interaction(std::size_t f, std::size_t g) const {
    const std::size_t height = factors_[f].levels.size(), width = factors_[g].levels.size();
    std::vector<double> cells(height * width, 0), first(height, 0), second(width, 0);
    double mean = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const double part_f = part(i, f), part_g = part(i, g);
      if (part_f == 1 || part_g == 1) continue;
      const double value = tree_.leaves[i].value * weights_[i];
      mean += value;
      for (const Level b : admitted(i, g)) second[b] += value / part_g;
      for (const Level a : admitted(i, f)) {
        first[a] += value / part_f;
        for (const Level b : admitted(i, g)) cells[a * width + b] += value / (part_f * part_g);
      }
    }
    double sum = 0;
    for (std::size_t a = 0; a < height; ++a) {
      for (std::size_t b = 0; b < width; ++b) {
        const double rest = cells[a * width + b] - first[a] - second[b] + mean;
        sum += rest * rest;
      }
    }
    return sum / static_cast<double>(cells.size());
  }

 private:
  double part(std::size_t leaf, std::size_t f) const { return parts_[leaf * factors_.size() + f]; }
  std::span<const Level> admitted(std::size_t leaf, std::size_t f) const {
    const std::size_t at = leaf * factors_.size() + f;
    return std::span(admitted_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
  }

  const Tree& tree_;
  const std::vector<Factor>& factors_;
  std::vector<Level> admitted_;      // of all leaves and factors
  std::vector<std::size_t> begins_;  // there, by leaf and factor
  std::vector<double> parts_;        // by leaf and factor
  std::vector<double> weights_;
  double mean_ = 0, square_ = 0;
};

double variance_of(const std::vector<double>& by_level, double mean) {
  double sum = 0;
  for (const double value : by_level) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(by_level.size());
}

void sort_by_share(auto& effects) {
  std::stable_sort(effects.begin(), effects.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
}

// The factors whose pairs are looked at, by what their main effects are.
std::vector<std::size_t> paired_factors(const std::vector<MainEffect>& main, const std::vector<Factor>& factors) {
  std::vector<std::size_t> chosen;
  double levels = 0, cells = 0;
  for (const MainEffect& effect : main) {
    const auto more = static_cast<double>(factors[effect.factor].levels.size());
    if (chosen.size() == kPairedFactors || cells + levels * more > kMostPairCells) break;
    cells += levels * more;
    levels += more;
    chosen.push_back(effect.factor);
  }
  return chosen;
}

void add_interactions(const std::vector<Marginals>& trees, const std::vector<Factor>& factors, Importance& importance) {
  const std::vector<std::size_t> chosen = paired_factors(importance.main, factors);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (std::size_t j = i + 1; j < chosen.size(); ++j)
      importance.pairs.push_back({.first = chosen[i], .second = chosen[j]});
  }
  for (const Marginals& tree : trees) {
    for (Interaction& pair : importance.pairs)
      pair.share += tree.interaction(pair.first, pair.second) / tree.variance() / static_cast<double>(trees.size());
  }
  sort_by_share(importance.pairs);
}

}  // namespace

Importance importance_of(const Forest& forest, const std::vector<Factor>& factors) {
  Importance importance{.explained = forest.explained};
  std::vector<Marginals> trees;
  for (const Tree& tree : forest.trees) {
    Marginals marginals(tree, factors);
    if (marginals.variance() > 0) trees.push_back(std::move(marginals));
  }
  for (std::size_t f = 0; f < factors.size(); ++f) {
    if (factors[f].levels.size() < 2) continue;
    MainEffect& effect = importance.main.emplace_back();
    effect.factor = f;
    effect.by_level.assign(factors[f].levels.size(), 0);
    for (const Marginals& tree : trees) {
      const std::vector<double> by_level = tree.of(f);
      effect.share += variance_of(by_level, mean_of(by_level)) / tree.variance();
      for (std::size_t l = 0; l < by_level.size(); ++l)
        effect.by_level[l] += by_level[l] / static_cast<double>(trees.size());
    }
    if (!trees.empty()) effect.share /= static_cast<double>(trees.size());
  }
  sort_by_share(importance.main);
  if (!trees.empty()) add_interactions(trees, factors, importance);
  return importance;
}

Importance importance_of(const ForestData& data, const ForestOptions& options) {
  Importance importance = importance_of(grow_forest(data, options), *data.factors);
  importance.rows = data.rows.size();
  return importance;
}

}  // namespace moetune
