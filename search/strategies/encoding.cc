#include "search/strategies/encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace moetune {
namespace {
constexpr double kDivisorWeight = 0.7;  // of sharing a power of two, against being equal

// Small counts and sizes act by their ratio; zero and one are a ratio of two apart.
std::vector<double> coordinates(const Parameter& parameter) {
  std::vector<double> at;
  const auto number = [](const Value& value) { return static_cast<double>(value.number); };
  double least = number(parameter.values.front());
  for (const Value& value : parameter.values) least = std::min(least, number(value));
  const double shift = least <= 0 ? 1 - least : 0;
  for (const Value& value : parameter.values) at.push_back(std::log2(number(value) + shift));
  const auto [low, high] = std::minmax_element(at.begin(), at.end());
  const double from = *low;
  const double span = *high - *low;
  for (double& x : at) x = span > 0 ? (x - from) / span : 0;
  return at;
}

int twos(std::int64_t value) { return value == 0 ? 0 : std::countr_zero(static_cast<std::uint64_t>(value)); }

// Alignment, vector width and bank conflicts go by the power of two that divides a size, across any distance.
std::vector<double> divisor_similarity(const Parameter& parameter) {
  const std::size_t size = parameter.values.size();  // at most kMostSteps
  std::vector<double> similarity(size * size, 0);
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = 0; b < size; ++b) {
      const int apart = std::abs(twos(parameter.values[a].number) - twos(parameter.values[b].number));
      if (!parameter.is_named()) similarity[a * size + b] = kDivisorWeight * std::exp(-apart);
      if (a == b) similarity[a * size + b] = 1;
    }
  }
  return similarity;
}

// Divides a long domain into at most kMostSteps steps: of equal width in the coordinate, by which the model compares
// values; of names equally many each. The middle value of each step goes into `middles`. Returns their coordinates.
std::vector<double> divide(const Parameter& parameter, std::vector<Position>& steps, Parameter& middles) {
  const std::vector<double> at = coordinates(parameter);
  const std::size_t size = at.size();
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return at[a] < at[b]; });
  const auto step_at = [&](std::size_t rank) {
    if (parameter.is_named()) return rank * kMostSteps / size;
    return std::min(kMostSteps - 1, static_cast<std::size_t>(at[order[rank]] * kMostSteps));
  };
  steps.resize(size);
  std::vector<double> middle_at;
  for (std::size_t rank = 0, begin = 0; rank < size; ++rank) {
    steps[order[rank]] = static_cast<Position>(middle_at.size());
    if (rank + 1 < size && step_at(rank + 1) == step_at(rank)) continue;
    const std::size_t middle = order[(begin + rank) / 2];
    middles.values.push_back(parameter.values[middle]);
    middle_at.push_back(at[middle]);
    begin = rank + 1;
  }
  return middle_at;
}

Axis make_axis(std::size_t position, const Parameter& parameter) {
  const bool ordered = !parameter.is_named() && parameter.values.size() > 2;
  if (parameter.values.size() <= kMostSteps)
    return {position, ordered, coordinates(parameter), divisor_similarity(parameter)};
  Axis axis{.parameter = position, .ordered = ordered, .at = {}, .rough = {}};
  Parameter middles{parameter.name, {}, ""};
  axis.at = divide(parameter, axis.steps, middles);
  axis.rough = divisor_similarity(middles);
  return axis;
}

}  // namespace

Encoding::Encoding(const LegalSpace& space) {
  for (std::size_t p = 0; p < space.parameters().size(); ++p) {
    const Parameter& parameter = space.parameters()[p];
    if (parameter.values.size() < 2) continue;
    axes_.push_back(make_axis(p, parameter));
  }
}

void Encoding::append(std::span<const Position> point, std::vector<Position>& rows) const {
  for (const Axis& axis : axes_) rows.push_back(axis.step(point[axis.parameter]));
}

}  // namespace moetune
