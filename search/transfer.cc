#include "search/transfer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moetune {

std::vector<Position> Transfer::operator()(std::span<const Position> point, const LegalSpace& legal) {
  std::vector<Position> carried(point.begin(), point.end());
  for (std::size_t i = 0; i < here_.file().kept.size(); ++i)
    carried[here_.file().kept[i].parameter] = nearest_value(i, point);
  if (!legal.find(carried)) repair(carried, legal);
  return carried;
}

// The value that `point` has where the quantity has no ratio.
Position Transfer::nearest_value(std::size_t kept, std::span<const Position> point) const {
  const std::size_t parameter = here_.file().kept[kept].parameter;
  const std::int64_t wanted = there_.kept_quantity(kept, point);
  if (wanted <= 0) return point[parameter];
  std::vector<Position> tried(point.begin(), point.end());
  Position nearest = point[parameter];
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t value = 0; value < here_.file().parameters[parameter].values.size(); ++value) {
    tried[parameter] = static_cast<Position>(value);
    const std::int64_t quantity = here_.kept_quantity(kept, tried);
    if (quantity <= 0) continue;
    const double apart = std::abs(std::log(static_cast<double>(quantity) / static_cast<double>(wanted)));
    if (apart < least) {
      least = apart;
      nearest = static_cast<Position>(value);
    }
  }
  return nearest;
}

void Transfer::repair(std::vector<Position>& point, const LegalSpace& legal) {
  std::vector<std::vector<Position>> repaired;
  for (std::size_t p = 0; p < point.size(); ++p) {
    const auto keeps = [&](const SpaceFile::Kept& kept) { return kept.parameter == p; };
    if (std::any_of(here_.file().kept.begin(), here_.file().kept.end(), keeps)) continue;
    std::vector<Position> changed = point;
    for (std::size_t value = 0; value < here_.file().parameters[p].values.size(); ++value) {
      changed[p] = static_cast<Position>(value);
      if (legal.find(changed)) repaired.push_back(changed);
    }
  }
  if (!repaired.empty()) point = repaired[turn_++ % repaired.size()];
}

}  // namespace moetune
