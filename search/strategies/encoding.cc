#include "search/strategies/encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>

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
  const std::size_t size = parameter.values.size();
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

}  // namespace

Encoding::Encoding(const LegalSpace& space) {
  for (std::size_t p = 0; p < space.parameters().size(); ++p) {
    const Parameter& parameter = space.parameters()[p];
    if (parameter.values.size() < 2) continue;
    axes_.push_back({p, !parameter.is_named() && parameter.values.size() > 2, coordinates(parameter),
                     divisor_similarity(parameter)});
  }
}

void Encoding::append(std::span<const Position> point, std::vector<Position>& rows) const {
  for (const Axis& axis : axes_) rows.push_back(point[axis.parameter]);
}

}  // namespace moetune
