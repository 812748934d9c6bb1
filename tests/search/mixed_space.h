// A small mixed space for the tests of strategies, with times that are known in closed form.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "search/legal_space.h"
#include "search/random.h"
#include "search/searcher.h"

namespace moetune {

inline Parameter integers(std::string name, std::vector<std::int64_t> values) {
  Parameter parameter{std::move(name), {}, ""};
  for (const std::int64_t value : values) parameter.values.push_back(Value::integer(value));
  return parameter;
}

inline LegalSpace full(std::vector<Parameter> parameters) {
  std::vector<Position> rows;
  std::size_t count = 1;
  for (const Parameter& parameter : parameters) count *= parameter.values.size();
  std::vector<Position> row(parameters.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (std::size_t p = parameters.size(); p-- > 0; rest /= parameters[p].values.size())
      row[p] = static_cast<Position>(rest % parameters[p].values.size());
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return LegalSpace(std::move(parameters), std::move(rows));
}

inline LegalSpace mixed_space() {
  Parameter loader{"loader", {Value::named("plain", 0), Value::named("async", 1), Value::named("tma", 2)}, ""};
  return full({integers("tile", {16, 32, 48, 64, 96, 128}), integers("stages", {1, 2, 3, 4, 6, 8}),
               integers("vector", {1, 2, 4, 8}), std::move(loader), integers("flag", {0, 1})});
}

// Smooth in the logarithms, with an interaction and a preference for one name; a corner of it fails.
inline Observation measure(const LegalSpace& space, ConfigId id) {
  const Config config = space.config(id);
  const double tile = std::log2(static_cast<double>(config.number("tile")));
  const double stages = static_cast<double>(config.number("stages"));
  if (tile * stages > 50) return {id, Outcome::launch_failed, 0};
  double time = 20 + std::pow(tile - 5.5, 2) + std::pow(stages - 4, 2) * (config.number("flag") == 0 ? 1 : 0.3);
  time += config.is("loader", "tma") ? 0 : 4;
  time += 3 * std::abs(std::log2(static_cast<double>(config.number("vector"))) - 2);
  return {id, Outcome::ok, time};
}

inline std::vector<Observation> measure_all(const LegalSpace& space) {
  std::vector<Observation> all;
  for (ConfigId id = 0; id < space.size(); ++id) all.push_back(measure(space, id));
  return all;
}

inline PastTrial past(const LegalSpace& space, const Observation& trial) {
  const std::span<const Position> point = space.point(trial.id);
  return {{point.begin(), point.end()}, trial.outcome, trial.time_us};
}

inline std::vector<ConfigId> some_ids(const LegalSpace& space, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<ConfigId> ids(space.size());
  for (ConfigId id = 0; id < ids.size(); ++id) ids[id] = id;
  random.shuffle(ids);
  ids.resize(count);
  return ids;
}

}  // namespace moetune
