// Where the measuring of a cubin begins: run-time values that were good elsewhere, and what lies beside them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "jobs/cell_meter.h"
#include "tuner/history.h"

namespace moetune {
namespace {

// Blocks in whole waves are tried if so much less of the last wave is idle, at so many steps of run-time values.
constexpr double kClearlyFuller = 0.05;
constexpr std::size_t kWaveSteps = 4;

}  // namespace

std::vector<ConfigId> CellMeter::siblings(const std::string& cubin) const {
  const LegalSpace& space = session_.space();
  std::vector<ConfigId> found;
  std::vector<std::pair<std::size_t, Position>> wanted;
  const Config compiled = session_.space_file()->parse_values(cubin);
  for (std::size_t i = 0; i < space.parameters().size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    const Value* const value = compiled.find(parameter.name);
    if (value == nullptr) continue;
    const auto at = std::find_if(parameter.values.begin(), parameter.values.end(),
                                 [&](const Value& one) { return one.text() == value->text(); });
    if (at == parameter.values.end()) return found;
    wanted.emplace_back(i, static_cast<Position>(at - parameter.values.begin()));
  }
  for (ConfigId id = 0; id < space.size(); ++id) {
    const std::span<const Position> point = space.point(id);
    const auto agrees = [&](const auto& one) { return point[one.first] == one.second; };
    if (std::all_of(wanted.begin(), wanted.end(), agrees)) found.push_back(id);
  }
  return found;
}

ConfigId CellMeter::nearest_sibling(std::span<const Position> point,
                                    const std::vector<ConfigId>& among) const {
  const auto distance = [&](ConfigId id) {
    const std::span<const Position> other = session_.space().point(id);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < other.size(); ++i)
      sum += static_cast<std::size_t>(std::abs(int{other[i]} - int{point[i]}));
    return sum;
  };
  return *std::min_element(among.begin(), among.end(),
                           [&](ConfigId a, ConfigId b) { return distance(a) < distance(b); });
}

// The share of the last wave in which SMs have nothing to do, if each holds one block.
double CellMeter::idle_share(ConfigId id) const {
  const double waves = waves_of(session_.space().config(id), session_.problem());
  return 1 - waves / std::ceil(waves);
}

double CellMeter::waves_of(const Config& config, const Problem& problem) const {
  const DeviceLimits& limits = session_.info().limits;
  const Plan plan = session_.kernel()->plan(config, problem, limits);
  double blocks = 1;
  for (const Launch& launch : plan.launches)
    blocks = std::max(blocks, static_cast<double>(launch.grid[0]) * launch.grid[1] * launch.grid[2]);
  return blocks / std::max(1, limits.sm_count);
}

// Of the siblings a few steps away the one whose blocks fill the SMs best, if that is clearly better.
ConfigId CellMeter::of_whole_waves(ConfigId near, const std::vector<ConfigId>& among) const {
  ConfigId best = near;
  double least = idle_share(near) - kClearlyFuller;
  for (const ConfigId id : among) {
    if (steps_.steps(session_.space().point(id), session_.space().point(near)) > kWaveSteps) continue;
    const double idle = idle_share(id);
    if (idle >= least) continue;
    least = idle;
    best = id;
  }
  return best;
}

// The fastest that a search of this problem measured already, which costs nothing.
std::optional<ConfigId> CellMeter::best_known(const std::vector<ConfigId>& among) const {
  std::optional<ConfigId> best;
  double least = std::numeric_limits<double>::infinity();
  for (const ConfigId id : among) {
    const auto known = known_.find(session_.space().config(id).text());
    if (known == known_.end()) continue;
    const TrialResult& result = known->second;
    const double time = result.measurement.median_us;
    if (!has_usable_time({id, result.outcome, time}) || time >= least) continue;
    best = id;
    least = time;
  }
  return best;
}

// The siblings nearest to what was good elsewhere, as it is and as it is carried over to this problem; what is known to
// be good here; and one beside the first of them whose blocks come in whole waves. Without any the first sibling.
std::vector<ConfigId> CellMeter::starting_points(const Hint& hint, const std::vector<ConfigId>& among) const {
  const LegalSpace& space = session_.space();
  std::vector<ConfigId> starts;
  const auto add = [&](ConfigId id) {
    if (std::find(starts.begin(), starts.end(), id) == starts.end()) starts.push_back(id);
  };
  const TransferContext context{session_.kernel(), session_.space_file(), session_.info().limits};
  for (const Hint::Origin& origin : hint.origins) {
    const std::optional<std::vector<Position>> point = space.point_of(origin.config);
    if (!point) continue;
    WorkloadKey there = session_.key();
    there.problem = origin.problem;
    if (std::optional<Transfer> transfer = transfer_between(context, there, session_.key(), space))
      add(nearest_sibling((*transfer)(*point, space), among));
    add(nearest_sibling(*point, among));
  }
  if (const std::optional<ConfigId> known = best_known(among)) add(*known);
  if (starts.empty()) starts.push_back(among.front());
  if (session_.kernel() != nullptr) add(of_whole_waves(starts.front(), among));
  return starts;
}

}  // namespace moetune
