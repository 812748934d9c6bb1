#include "retune/neighbourhood.h"

#include <set>

namespace moetune {

LegalSpace neighbourhood(const LegalSpace& space, const std::string& winner, const std::vector<std::string>& also) {
  const std::optional<std::vector<Position>> centre = space.point_of(winner);
  std::set<ConfigId> named;
  for (const std::string& config : also)
    if (const std::optional<ConfigId> id = space.find_text(config)) named.insert(*id);
  std::vector<Position> rows;
  for (ConfigId id = 0; id < space.size(); ++id) {
    const std::span<const Position> point = space.point(id);
    std::size_t changes = 0;
    for (std::size_t p = 0; centre && p < point.size(); ++p) changes += point[p] != (*centre)[p];
    if (changes <= kPatchChanges || named.contains(id)) rows.insert(rows.end(), point.begin(), point.end());
  }
  return {space.parameters(), std::move(rows)};
}

void renumber(TuneResult& result, const LegalSpace& part, const LegalSpace& space) {
  const auto number = [&](Trial& trial) { trial.id = space.find(part.point(trial.id)).value(); };
  for (Trial& trial : result.trials) number(trial);
  if (result.best) number(*result.best);
  if (result.baseline) number(*result.baseline);
}

}  // namespace moetune
