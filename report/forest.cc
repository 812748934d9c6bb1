#include "report/forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "search/random.h"

namespace moetune {
namespace {

struct Node {
  std::size_t factor = 0;
  std::vector<bool> left;      // levels that go left
  int children[2] = {-1, -1};  // none in a leaf
  double value = 0;
};

struct LevelSum {
  double sum = 0;
  std::size_t count = 0;
  Level level = 0;
};

struct Split {
  double gain = 0;
  std::size_t factor = 0, cut = 0;
  bool found = false;
};

// The rows' levels, those of a factor side by side: a split is looked for in one factor at a time.
class LevelColumns {
 public:
  explicit LevelColumns(const ForestData& data) : rows_(data.rows.size()), levels_(rows_ * data.factors->size()) {
    for (std::size_t row = 0; row < rows_; ++row)
      for (std::size_t f = 0; f < data.factors->size(); ++f) levels_[f * rows_ + row] = data.rows[row][f];
  }
  const Level* of(std::size_t factor) const { return levels_.data() + factor * rows_; }

 private:
  std::size_t rows_;
  std::vector<Level> levels_;
};

class TreeGrower {
 public:
  TreeGrower(const ForestData& data, const LevelColumns& columns, const ForestOptions& options, Random& random)
      : data_(data), columns_(columns), options_(options), random_(random), sums_(1) {
    for (const Factor& factor : *data.factors) sums_.resize(std::max(sums_.size(), factor.levels.size()));
  }

  // Takes a bootstrap sample; which rows were not drawn is in `unseen()`.
  void grow() {
    const std::size_t count = data_.rows.size();
    std::vector<std::size_t> drawn(count);
    unseen_.assign(count, true);
    for (std::size_t& row : drawn) {
      row = random_.below(count);
      unseen_[row] = false;
    }
    grow_node(drawn.begin(), drawn.end());
  }

  double predict(const std::vector<Level>& row) const {
    int at = 0;
    while (nodes_[at].children[0] >= 0) at = nodes_[at].children[nodes_[at].left[row[nodes_[at].factor]] ? 0 : 1];
    return nodes_[at].value;
  }

  const std::vector<bool>& unseen() const { return unseen_; }

  Tree leaves() const {
    Tree tree;
    const std::vector<std::size_t> offsets = level_offsets(*data_.factors);
    std::vector<bool> all(offsets.back(), true);
    collect(0, offsets, all, tree);
    return tree;
  }

 private:
  using Iterator = std::vector<std::size_t>::iterator;

  // Puts into `seen_` the levels that the rows have, by their means, or in the order of numbers: the best of all splits
  // in two of a factor without order is one of these (Fisher 1958).
  void sum_levels(std::size_t f, Iterator begin, Iterator end) {
    const Level* const levels = columns_.of(f);
    seen_.clear();
    for (Iterator row = begin; row != end; ++row) {
      LevelSum& level = sums_[levels[*row]];
      if (level.count++ == 0) seen_.push_back({.level = levels[*row]});
      level.sum += data_.response[*row];
    }
    for (LevelSum& one : seen_) {
      one.sum = sums_[one.level].sum;
      one.count = std::exchange(sums_[one.level], {}).count;
    }
    const auto mean = [](const LevelSum& level) { return level.sum / static_cast<double>(level.count); };
    std::ranges::sort(seen_, {}, &LevelSum::level);
    if (!(*data_.factors)[f].ordered) std::ranges::stable_sort(seen_, {}, mean);
  }

  void try_factor(std::size_t f, Iterator begin, Iterator end, double sum, Split& best) {
    sum_levels(f, begin, end);
    const std::size_t total = static_cast<std::size_t>(end - begin);
    double left_sum = 0;
    std::size_t left_count = 0;
    for (std::size_t cut = 0; cut + 1 < seen_.size(); ++cut) {
      left_sum += seen_[cut].sum;
      left_count += seen_[cut].count;
      const std::size_t right_count = total - left_count;
      if (left_count < options_.least_leaf || right_count < options_.least_leaf) continue;
      const double right_sum = sum - left_sum;
      const double gain = left_sum * left_sum / static_cast<double>(left_count) +
                          right_sum * right_sum / static_cast<double>(right_count) -
                          sum * sum / static_cast<double>(total);
      if (gain > best.gain) best = {gain, f, cut, true};
    }
  }

  // Levels that no row of the node has go to the side of the nearest level, or of more rows.
  std::vector<bool> admitted(const Split& split, Iterator begin, Iterator end) {
    const Factor& factor = (*data_.factors)[split.factor];
    const std::size_t cut = split.cut;
    sum_levels(split.factor, begin, end);
    std::vector<bool> left(factor.levels.size(), false);
    if (factor.ordered) {
      const std::size_t between = (std::size_t{seen_[cut].level} + seen_[cut + 1].level) / 2;
      for (std::size_t l = 0; l <= between; ++l) left[l] = true;
      return left;
    }
    std::size_t left_count = 0, right_count = 0;
    for (std::size_t s = 0; s < seen_.size(); ++s) (s <= cut ? left_count : right_count) += seen_[s].count;
    left.assign(factor.levels.size(), left_count >= right_count);
    for (std::size_t s = 0; s < seen_.size(); ++s) left[seen_[s].level] = s <= cut;
    return left;
  }

  int grow_node(Iterator begin, Iterator end) {
    const int at = static_cast<int>(nodes_.size());
    nodes_.emplace_back();
    double sum = 0;
    for (Iterator row = begin; row != end; ++row) sum += data_.response[*row];
    const auto count = static_cast<double>(end - begin);
    nodes_[at].value = sum / count;
    if (static_cast<std::size_t>(end - begin) < 2 * options_.least_leaf) return at;

    std::vector<std::size_t> order(data_.factors->size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random_.shuffle(order);
    const auto tried = static_cast<std::size_t>(std::ceil(options_.tried_factors * static_cast<double>(order.size())));
    Split best{.gain = 1e-12 * std::max(1.0, sum * sum / count)};
    const double least = best.gain;
    // Beyond the quota only while nothing splits the node.
    for (std::size_t i = 0; i < order.size() && (i < tried || best.gain == least); ++i)
      try_factor(order[i], begin, end, sum, best);
    if (!best.found) return at;

    std::vector<bool> goes_left = admitted(best, begin, end);
    const Level* const levels = columns_.of(best.factor);
    const Iterator middle = std::stable_partition(begin, end, [&](std::size_t row) { return goes_left[levels[row]]; });
    if (middle == begin || middle == end) return at;
    nodes_[at].factor = best.factor;
    nodes_[at].left = std::move(goes_left);
    const int left = grow_node(begin, middle);
    const int right = grow_node(middle, end);
    nodes_[at].children[0] = left;
    nodes_[at].children[1] = right;
    return at;
  }

  void collect(int at, const std::vector<std::size_t>& offsets, std::vector<bool>& admits, Tree& tree) const {
    const Node& node = nodes_[at];
    if (node.children[0] < 0) {
      tree.leaves.push_back({node.value, admits});
      return;
    }
    const auto own = admits.begin() + static_cast<std::ptrdiff_t>(offsets[node.factor]);
    const std::vector<bool> before(own, own + static_cast<std::ptrdiff_t>(node.left.size()));
    for (const int side : {0, 1}) {
      for (std::size_t l = 0; l < before.size(); ++l)
        own[static_cast<std::ptrdiff_t>(l)] = before[l] && node.left[l] == (side == 0);
      collect(node.children[side], offsets, admits, tree);
    }
    std::copy(before.begin(), before.end(), own);
  }

  const ForestData& data_;
  const LevelColumns& columns_;
  const ForestOptions& options_;
  Random& random_;
  std::vector<LevelSum> sums_;  // by level; all 0 between calls of sum_levels()
  std::vector<LevelSum> seen_;
  std::vector<Node> nodes_;
  std::vector<bool> unseen_;
};

}  // namespace

std::vector<std::size_t> level_offsets(const std::vector<Factor>& factors) {
  std::vector<std::size_t> offsets = {0};
  for (const Factor& factor : factors) offsets.push_back(offsets.back() + factor.levels.size());
  return offsets;
}

Forest grow_forest(const ForestData& data, const ForestOptions& options) {
  Forest forest;
  const std::size_t count = data.rows.size();
  if (count == 0) return forest;
  Random random(options.seed);
  const LevelColumns columns(data);
  std::vector<double> sums(count, 0);
  std::vector<std::size_t> votes(count, 0);
  for (std::size_t t = 0; t < options.trees; ++t) {
    TreeGrower grower(data, columns, options, random);
    grower.grow();
    for (std::size_t row = 0; row < count; ++row) {
      if (!grower.unseen()[row]) continue;
      sums[row] += grower.predict(data.rows[row]);
      ++votes[row];
    }
    forest.trees.push_back(grower.leaves());
  }
  const double mean = std::accumulate(data.response.begin(), data.response.end(), 0.0) / static_cast<double>(count);
  double error = 0, variance = 0;
  for (std::size_t row = 0; row < count; ++row) {
    if (votes[row] == 0) continue;
    const double predicted = sums[row] / static_cast<double>(votes[row]);
    error += (data.response[row] - predicted) * (data.response[row] - predicted);
    variance += (data.response[row] - mean) * (data.response[row] - mean);
  }
  forest.explained = variance > 0 ? 1 - error / variance : 0;
  return forest;
}

}  // namespace moetune
