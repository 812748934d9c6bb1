#include "search/strategies/fact_table.h"

#include <algorithm>
#include <cmath>

namespace moetune {
namespace {

constexpr std::size_t kMostLevels = 24;
// Facts follow from the parameters, which the model sees too: less is expected of each.
constexpr double kFactDoubt = -1.5;

// Every value where they are few, else evenly through their ranks.
std::vector<double> choose_levels(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::vector<double> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= kMostLevels) return distinct;
  std::vector<double> levels;
  for (std::size_t i = 0; i < kMostLevels; ++i)
    levels.push_back(values[i * (values.size() - 1) / (kMostLevels - 1)]);
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

Axis axis_of(const std::vector<double>& levels) {
  const std::size_t size = levels.size();
  const double span = levels.back() - levels.front();
  Axis axis{.ordered = true, .rough = std::vector<double>(size * size, 0), .prior_relevance = kFactDoubt};
  for (std::size_t i = 0; i < size; ++i) {
    axis.at.push_back(span > 0 ? (levels[i] - levels.front()) / span : 0);
    axis.rough[i * size + i] = 1;
  }
  return axis;
}

}  // namespace

bool FactTable::add(ConfigId id, const Facts& facts) {
  if (facts.empty() || knows(id)) return false;
  if (!ids_.empty() && facts.size() != rows_.at(ids_.front()).size()) return false;
  Facts row;
  for (const double fact : facts) {
    if (!std::isfinite(fact)) return false;
    row.push_back(std::log2(1 + std::max(fact, 0.0)));
  }
  ids_.push_back(id);
  rows_.emplace(id, std::move(row));
  return true;
}

void FactTable::settle() {
  scales_.clear();
  axes_.clear();
  middle_.clear();
  if (ids_.empty()) return;
  for (std::size_t f = 0; f < rows_.at(ids_.front()).size(); ++f) {
    std::vector<double> values;
    for (const ConfigId id : ids_) values.push_back(rows_.at(id)[f]);
    const Scale& scale = scales_.emplace_back(Scale{choose_levels(values)});
    axes_.push_back(axis_of(scale.levels));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    middle_.push_back(scale.nearest(values[values.size() / 2]));
  }
}

void FactTable::append(std::optional<ConfigId> id, std::vector<Position>& rows) const {
  const auto known = id ? rows_.find(*id) : rows_.end();
  for (std::size_t f = 0; f < scales_.size(); ++f)
    rows.push_back(known == rows_.end() ? middle_[f] : scales_[f].nearest(known->second[f]));
}

Position FactTable::Scale::nearest(double value) const {
  const auto above = std::lower_bound(levels.begin(), levels.end(), value);
  if (above == levels.begin()) return 0;
  const auto after = static_cast<std::size_t>(above - levels.begin());
  if (above == levels.end() || value - levels[after - 1] <= levels[after] - value)
    return static_cast<Position>(after - 1);
  return static_cast<Position>(after);
}

}  // namespace moetune
