#include "jobs/range/cell_meter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "base/error.h"
#include "jobs/session/stored_space.h"
#include "tuner/history.h"
#include "tuner/plausibility.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();
constexpr double kFarSlower = 1.2;  // than the best of the cell, at two of a cubin's starting points
// Rounds of the duel in a cell of the fine grid.
constexpr int kBriefRounds = 5;
constexpr double kBriefSampleUs = 1500;

}  // namespace

CellMeter::CellMeter(Session& session, const TuneSettings& settings, const JobContext& context)
    : session_(session),
      settings_(settings),
      context_(context),
      steps_(session.space_file()->parameters()),
      policy_(settings.policy),
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
  workload_ = cache.workloads.id(session_.key(), stored_family(session_.key()));
  known_.clear();
  best_us_ = kNoTime;
  judgement_ = Judgement(session_.kernel(), session_.problem(), session_.info());
  least_us_ = session_.least_us();
  for (const TrialRecord& record : cache.trials.of(workload_)) {
    if (should_retry(record) || !judgement_.holds(record, session_.space())) continue;
    std::optional<TrialResult> result = from_record(record);
    if (!result) continue;
    reject_impossible(*result, least_us_);
    known_.emplace(record.config, *std::move(result));
  }
  session_.device().set_stop(context_.stop);
  if (!is_open) session_.device().open(*session_.kernel(), session_.problem(), settings_.seed);
}

// Side by side, of cubins that are then asked for one after the other.
void CellMeter::compile(const std::vector<Hint>& cubins) {
  if (session_.compiler() == nullptr) return;
  std::vector<std::pair<Config, Plan>> begun;
  for (const Hint& hint : cubins) {
    if (compiled_.contains(hint.cubin)) continue;
    const std::vector<ConfigId> all = siblings(hint.cubin);
    if (all.empty()) continue;  // it may be legal elsewhere
    compiled_.insert(hint.cubin);
    const Config config = session_.space().config(all.front());
    begun.emplace_back(config, session_.kernel()->plan(config, session_.problem(), session_.info().limits));
    session_.compiler()->submit(begun.back().second.unit);
  }
  for (auto& [config, plan] : begun) session_.try_compile(std::move(plan), config);
}

std::optional<Candidate> CellMeter::candidate(const Config& config, TrialResult& failure) {
  if (session_.compiler() == nullptr) return Candidate{.config = config};
  Attempt attempt =
      session_.try_compile(session_.kernel()->plan(config, session_.problem(), session_.info().limits), config);
  if (attempt.outcome == Outcome::ok) return std::move(attempt.candidate);
  failure = {.outcome = attempt.outcome, .message = attempt.message};
  return std::nullopt;
}

void CellMeter::put(const Config& config, const TrialResult& result, const Build* build) {
  const Provenance source{.strategy = "range",
                          .seed = settings_.seed,
                          .device = session_.info().id,
                          .driver = session_.info().key.driver,
                          .judged = judgement_.of(config)};
  session_.cache()->trials.put(workload_, to_record(config, result, build, source));
}

// Drops results of a device that has failed, nobody knows when: the next search runs again everything since the last
// canary.
void CellMeter::disown() {
  for (const Config& config : std::exchange(unchecked_, {})) {
    const auto known = known_.find(config.text());
    if (known == known_.end()) continue;  // of an earlier cell, since which canaries were quiet
    TrialResult result = known->second;
    result.contended = true;
    put(config, result, nullptr);
  }
}

double CellMeter::time_of(ConfigId id) {
  if (context_.stop.stop_requested()) throw Stopped();
  const Config config = session_.space().config(id);
  if (withdrawn_.contains(config.text())) return kNoTime;
  auto known = known_.find(config.text());
  if (known == known_.end()) {
    TrialResult result;
    if (const std::optional<Candidate> found = candidate(config, result)) {
      MeasurePolicy policy = policy_;
      policy.drop_above_us = settings_.drop_factor * best_us_;
      result = session_.device().run(*found, policy);
      reject_impossible(result, least_us_);
      put(config, result, found->build.get());
      unchecked_.push_back(config);
      known_.emplace(config.text(), result);  // for disown(), whatever the breaker throws
      if (!session_.info().recorded) breaker_.record(config.text(), result);
    }
    known = known_.emplace(config.text(), std::move(result)).first;
  }
  const TrialResult& result = known->second;
  if (!has_usable_time({id, result.outcome, result.measurement.median_us})) return kNoTime;
  best_us_ = std::min(best_us_, result.measurement.median_us);
  return result.measurement.median_us;
}

// The starting points, then a descent over the run-time values: the nearest untried sibling of the best so far, until
// the tries are used up.
MeasuredConfig CellMeter::best_sibling(const Hint& hint, const Effort& effort) {
  std::vector<ConfigId> left = siblings(hint.cubin);
  if (!withdrawn_.empty())
    std::erase_if(left, [&](ConfigId id) { return withdrawn_.contains(session_.space().config(id).text()); });
  if (left.empty()) return {};
  const LegalSpace& space = session_.space();
  std::vector<ConfigId> starts = starting_points(hint, left);
  ConfigId best = starts.front();
  double best_time = kNoTime;
  for (std::size_t tries = 0; !left.empty() && (tries < starts.size() || tries < effort.tries); ++tries) {
    if (tries > 0 && std::chrono::steady_clock::now() > deadline_) break;
    if (effort.within > 0 && tries >= 2 && best_time > kFarSlower * best_us_) break;
    if (effort.within > 0 && tries >= starts.size() && best_time > effort.within * best_us_) break;
    const ConfigId next = tries < starts.size()
                              ? starts[tries]
                              : *std::min_element(left.begin(), left.end(), [&](ConfigId a, ConfigId b) {
                                  return steps_.distance(space.point(a), space.point(best)) <
                                         steps_.distance(space.point(b), space.point(best));
                                });
    const double time = time_of(next);
    if (time < best_time) {
      best = next;
      best_time = time;
    }
    left.erase(std::find(left.begin(), left.end(), next));
  }
  if (best_time == kNoTime) return {};
  return {space.config(best).text(), best_time};
}

std::vector<double> CellMeter::duel(const std::vector<std::string>& configs, bool& contended) {
  return meet(configs, thorough().duel, contended);
}

std::vector<double> CellMeter::meet(const std::vector<std::string>& configs, const DuelPolicy& policy,
                                    bool& contended) {
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
  if (candidates.empty()) return times;
  std::vector<TrialResult> results;
  const auto measure = [&] { results = session_.device().duel(candidates, policy); };
  contended = !watch_.measure_quietly(measure) || contended;
  unchecked_.clear();  // the device works
  for (std::size_t i = 0; i < results.size(); ++i) {
    reject_impossible(results[i], least_us_);
    if (has_usable_time({0, results[i].outcome, results[i].measurement.median_us}))
      times[places[i]] = results[i].measurement.median_us;
  }
  return times;
}

bool CellMeter::is_right(const std::string& config) {
  TrialResult failure;
  const std::optional<Candidate> found = candidate(session_.space_file()->parse_config(config), failure);
  if (!found) return false;
  return session_.device().verify(*found, ~settings_.seed, settings_.policy.time_limit_s).outcome == Outcome::ok;
}

CellMeter::Effort CellMeter::thorough() const {
  return {.within = 1.1,
          .finalists = 6,
          .duel = {.rounds = settings_.duel_rounds, .timing = settings_.policy.timing, .proves = true},
          .policy = settings_.policy,
          .seconds = 2};
}

CellMeter::Effort CellMeter::brief() const {
  Effort effort{.origins = 2,
                .tries = 8,
                .within = 1.05,
                .finalists = 3,
                .duel_within = 1.04,
                .duel = {kBriefRounds, settings_.policy.timing, kBriefSampleUs},
                .policy = settings_.policy,
                .seconds = 0.35};
  effort.policy.min_samples = 3;
  effort.policy.max_samples = 5;
  return effort;
}

// The fastest of the cell's cubins, which are near each other.
std::vector<std::string> CellMeter::finalists(const MeasuredCell& cell, const Effort& effort) const {
  std::vector<MeasuredConfig> near;
  for (const auto& [name, found] : cell.cubins) {
    if (!found.config.empty() && found.time_us <= effort.duel_within * best_us_) near.push_back(found);
  }
  std::ranges::stable_sort(near, {}, &MeasuredConfig::time_us);
  near.resize(std::min(near.size(), effort.finalists));
  std::vector<std::string> configs;
  for (const MeasuredConfig& one : near) configs.push_back(one.config);
  return configs;
}

// Returns the factor from a trial's time to a duel's.
double CellMeter::take_duel(const std::vector<std::string>& configs, const std::vector<double>& times,
                            const std::vector<Hint>& tried, MeasuredCell& cell) {
  std::map<std::string, MeasuredConfig> dueled;
  std::set<std::string> failed;
  double ratio = 0, fastest = kNoTime;  // of a duel's time to a trial's
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (times[i] == 0) {
      failed.insert(configs[i]);
      continue;
    }
    MeasuredConfig& known = dueled[cubin_of(session_.space_file()->parse_config(configs[i]))];
    if (known.config.empty() || times[i] < known.time_us) known = {configs[i], times[i]};
    const auto trial = known_.find(configs[i]);
    if (times[i] >= fastest || trial == known_.end()) continue;
    fastest = times[i];
    ratio = times[i] / trial->second.measurement.median_us;
  }
  for (const Hint& hint : tried) {
    MeasuredConfig& found = cell.cubins[hint.cubin];
    if (!found.config.empty() && ratio > 0) found.time_us *= ratio;
  }
  for (auto& [name, found] : cell.cubins) {
    if (failed.contains(found.config)) found = {};
  }
  for (auto& [name, found] : dueled) cell.cubins[name] = found;
  return ratio > 0 ? ratio : 1;
}

// The default's time is that of the duel if it met the others there, else that of its trial.
void CellMeter::take_default(const std::vector<std::string>& met, const std::vector<double>& times, double of_trial_us,
                             MeasuredCell& cell) {
  const Config& space_default = *session_.default_config();
  const std::string text = space_default.text();
  const auto place = std::ranges::find(met, text);
  const double time = place != met.end() ? times[static_cast<std::size_t>(place - met.begin())] : of_trial_us;
  if (time == 0) return;  // it failed in the duel
  cell.measured_default = MeasuredConfig{text, time};
  cell.default_cubin = cubin_of(space_default);
}

std::string CellMeter::judged(const MeasuredCell& cell, const Judgement& judgement) const {
  if (session_.info().recorded) return "";
  DigestBuilder builder;
  const auto add = [&](const MeasuredConfig& one) {
    if (!one.config.empty()) builder.add(judgement.of(session_.space_file()->parse_config(one.config)));
  };
  for (const auto& [name, one] : cell.cubins) add(one);
  if (cell.measured_default) add(*cell.measured_default);
  return builder.finish();
}

bool CellMeter::holds(const MeasuredCell& cell) const try {
  const auto runs = [](const auto& cubin) { return !cubin.second.config.empty(); };
  if (cell.is_measured() && !cell.measured_default && std::ranges::none_of(cell.cubins, runs)) return false;
  const Kernel& kernel = *session_.kernel();
  const Problem problem = kernel.parse(cell.problem);
  kernel.check(problem);
  return cell.judged == judged(cell, Judgement(&kernel, problem, session_.info()));
} catch (const BadInput&) {  // of a problem or a configuration that there is not today
  return false;
}

void CellMeter::learn(const MeasuredCell& cell) {
  WorkloadKey key = session_.key();
  key.problem = cell.problem;
  const std::optional<std::int64_t> workload = session_.cache()->workloads.find(key);
  if (!workload) return;
  std::map<std::string, std::vector<LaunchSteps::Timed>> by_cubin;
  for (const TrialRecord& trial : session_.cache()->trials.of(*workload)) {
    const std::optional<TrialResult> result = from_record(trial);
    std::optional<std::vector<Position>> point = session_.space().point_of(trial.config);
    if (!result || !point || !has_usable_time({0, result->outcome, trial.time_us})) continue;
    const std::string cubin = cubin_of(session_.space_file()->parse_config(trial.config));
    if (cell.cubins.contains(cubin)) by_cubin[cubin].push_back({*std::move(point), trial.time_us});
  }
  for (const auto& [cubin, siblings] : by_cubin) steps_.learn(siblings);
}

void CellMeter::measure(const std::vector<Hint>& cubins, const Effort& effort, MeasuredCell& cell) try {
  using std::chrono::steady_clock;
  compile(cubins);
  policy_ = effort.policy;
  deadline_ = steady_clock::time_point::max();
  if (effort.seconds > 0 && !session_.info().recorded)  // which has all times at once
    deadline_ = steady_clock::now() +
                std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(effort.seconds));
  cell.measured_default.reset();
  cell.contended = false;
  const std::optional<Config>& space_default = session_.default_config();
  const std::optional<ConfigId> place = space_default ? session_.space().find(*space_default) : std::nullopt;
  const double default_us = place ? time_of(*place) : kNoTime;
  for (const Hint& hint : cubins) cell.cubins[hint.cubin] = best_sibling(hint, effort);
  std::vector<std::string> configs = finalists(cell, effort);
  if (default_us < kNoTime && default_us <= effort.duel_within * best_us_) {
    std::erase(configs, space_default->text());
    configs.insert(configs.begin(), space_default->text());
  }
  const std::vector<double> times = meet(configs, effort.duel, cell.contended);
  const double scale = take_duel(configs, times, cubins, cell);
  if (default_us < kNoTime) take_default(configs, times, scale * default_us, cell);
  cell.judged = judged(cell, judgement_);
  learn(cell);
} catch (const BrokenEnvironment&) {
  disown();
  throw;
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

ConfigId CellMeter::nearest_sibling(std::span<const Position> point, const std::vector<ConfigId>& among) const {
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

// The siblings nearest to what was good elsewhere, as it is and as it is carried over to this problem, and what is
// known to be good here. Without any the first sibling.
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
  return starts;
}

}  // namespace moetune
