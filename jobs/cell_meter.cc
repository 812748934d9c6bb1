#include "jobs/cell_meter.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "jobs/stored_space.h"
#include "tuner/history.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();
// Slower than this times the best of the cell is far from serving there: no duel need say how far.
constexpr double kDuelWithin = 1.3;

}  // namespace

CellMeter::CellMeter(Session& session, const TuneSettings& settings, const JobContext& context)
    : session_(session),
      settings_(settings),
      context_(context),
      watch_(session.device(), context.events, settings.quiet_wait_s, context.stop) {
  for (const Parameter& parameter : session.space_file()->parameters()) {
    if (parameter.at_launch) at_launch_.insert(parameter.name);
  }
}

std::string CellMeter::cubin_of(const Config& config) const {
  Config compiled;
  for (const auto& [name, value] : config) {
    if (!at_launch_.contains(name)) compiled.set(name, value);
  }
  return compiled.text();
}

void CellMeter::begin(bool is_open) {
  Cache& cache = *session_.cache();
  workload_ = cache.workload(session_.key(), stored_family(session_.key()));
  known_.clear();
  best_us_ = kNoTime;
  for (const TrialRecord& record : cache.trials(workload_)) {
    if (should_retry(record)) continue;
    if (std::optional<TrialResult> result = from_record(record))
      known_.emplace(record.config, *std::move(result));
  }
  session_.device().set_stop(context_.stop);
  if (!is_open) session_.device().open(*session_.kernel(), session_.problem(), settings_.seed);
}

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

// In steps of the domains of what belongs to the launch.
std::size_t CellMeter::launch_distance(ConfigId a, ConfigId b) const {
  const std::span<const Position> one = session_.space().point(a), other = session_.space().point(b);
  std::size_t distance = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    distance += static_cast<std::size_t>(std::abs(int{one[i]} - int{other[i]}));
  return distance;
}

// The sibling nearest to the hint as it is carried over to this problem; without a hint the first.
ConfigId CellMeter::starting_point(const Hint& hint, const std::vector<ConfigId>& among) const {
  const LegalSpace& space = session_.space();
  if (hint.config.empty()) return among.front();
  std::optional<std::vector<Position>> point = space.point_of(hint.config);
  if (!point) return among.front();
  WorkloadKey there = session_.key();
  there.problem = hint.problem;
  const TransferContext context{session_.kernel(), session_.space_file(), session_.info().limits};
  if (std::optional<Transfer> transfer = transfer_between(context, there, session_.key(), space))
    point = (*transfer)(*point, space);
  const auto distance = [&](ConfigId id) {
    const std::span<const Position> other = space.point(id);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < other.size(); ++i)
      sum += static_cast<std::size_t>(std::abs(int{other[i]} - int{(*point)[i]}));
    return sum;
  };
  return *std::min_element(among.begin(), among.end(),
                           [&](ConfigId a, ConfigId b) { return distance(a) < distance(b); });
}

std::optional<Candidate> CellMeter::candidate(const Config& config, TrialResult& failure) {
  if (session_.compiler() == nullptr) return Candidate{.config = config};
  Attempt attempt = session_.try_compile(
      session_.kernel()->plan(config, session_.problem(), session_.info().limits), config);
  if (attempt.outcome == Outcome::ok) return std::move(attempt.candidate);
  failure = {.outcome = attempt.outcome, .message = attempt.message};
  return std::nullopt;
}

void CellMeter::put(const Config& config, const TrialResult& result, const Build* build) {
  const Provenance source{.strategy = "range",
                          .seed = settings_.seed,
                          .device = session_.info().id,
                          .driver = session_.info().key.driver};
  session_.cache()->put_trial(workload_, to_record(config, result, build, source));
}

double CellMeter::time_of(ConfigId id) {
  if (context_.stop.stop_requested()) throw Stopped();
  const Config config = session_.space().config(id);
  auto known = known_.find(config.text());
  if (known == known_.end()) {
    TrialResult result;
    if (const std::optional<Candidate> found = candidate(config, result)) {
      MeasurePolicy policy = settings_.policy;
      policy.drop_above_us = settings_.drop_factor * best_us_;
      result = session_.device().run(*found, policy);
      put(config, result, found->build.get());
      if (!session_.info().recorded) breaker_.record(config.text(), result);
    }
    known = known_.emplace(config.text(), std::move(result)).first;
  }
  const TrialResult& result = known->second;
  if (!has_usable_time({id, result.outcome, result.measurement.median_us})) return kNoTime;
  best_us_ = std::min(best_us_, result.measurement.median_us);
  return result.measurement.median_us;
}

// A descent over the run-time values: the nearest untried siblings of the best so far, until two rounds of them in
// sequence bring nothing or the tries are used up.
MeasuredConfig CellMeter::best_sibling(const Hint& hint) {
  std::vector<ConfigId> left = siblings(hint.cubin);
  if (left.empty()) return {};
  ConfigId best = starting_point(hint, left), next = best;
  double best_time = kNoTime;
  for (std::size_t tries = 0; tries < kMostTries; ++tries) {
    const double time = time_of(next);
    if (time < best_time) {
      best = next;
      best_time = time;
    }
    left.erase(std::find(left.begin(), left.end(), next));
    if (left.empty()) break;
    next = *std::min_element(left.begin(), left.end(), [&](ConfigId a, ConfigId b) {
      return launch_distance(a, best) < launch_distance(b, best);
    });
  }
  if (best_time == kNoTime) return {};
  return {session_.space().config(best).text(), best_time};
}

std::vector<double> CellMeter::duel(const std::vector<std::string>& configs, bool& contended) {
  std::vector<double> times(configs.size(), 0);
  std::vector<Candidate> candidates;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    TrialResult failure;
    std::optional<Candidate> found = candidate(session_.space_file()->parse_config(configs[i]), failure);
    if (!found) continue;
    candidates.push_back(*std::move(found));
    places.push_back(i);
  }
  std::vector<TrialResult> results;
  const auto measure = [&] {
    results = session_.device().duel(candidates, settings_.duel_rounds, settings_.policy.timing);
  };
  contended = !watch_.measure_quietly(measure) || contended;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (has_usable_time({0, results[i].outcome, results[i].measurement.median_us}))
      times[places[i]] = results[i].measurement.median_us;
  }
  return times;
}

void CellMeter::measure(const std::vector<Hint>& cubins, RangeCellState& cell) {
  cell.fallback.reset();
  cell.contended = false;
  std::vector<std::string> configs;
  if (session_.default_config() && session_.space().find(*session_.default_config())) {
    if (time_of(*session_.space().find(*session_.default_config())) < kNoTime)
      configs.push_back(session_.default_config()->text());
  }
  const bool has_default = !configs.empty();
  for (const Hint& hint : cubins) cell.cubins[hint.cubin] = best_sibling(hint);
  for (const auto& [name, found] : cell.cubins) {
    const bool is_near = !found.config.empty() && found.time_us <= kDuelWithin * best_us_;
    if (is_near && std::find(configs.begin(), configs.end(), found.config) == configs.end())
      configs.push_back(found.config);
  }
  const std::vector<double> times = duel(configs, cell.contended);
  std::map<std::string, MeasuredConfig> dueled;
  std::set<std::string> failed;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (times[i] == 0) {
      failed.insert(configs[i]);
      continue;
    }
    MeasuredConfig& known = dueled[cubin_of(session_.space_file()->parse_config(configs[i]))];
    if (known.config.empty() || times[i] < known.time_us) known = {configs[i], times[i]};
  }
  for (auto& [name, found] : cell.cubins) {
    if (failed.contains(found.config)) found = {};
  }
  for (auto& [name, found] : dueled) cell.cubins[name] = found;
  if (has_default && times[0] > 0) cell.fallback = MeasuredConfig{configs[0], times[0]};
}

}  // namespace moetune
