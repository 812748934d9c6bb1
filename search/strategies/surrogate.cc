#include "search/strategies/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "search/strategies/candidate_pool.h"
#include "search/strategies/evidence.h"
#include "search/strategies/thinning.h"

namespace moetune {
namespace {

constexpr std::size_t kFewestSuccesses = 3;
constexpr std::size_t kMostModelledTrials = 500;  // a search this long has passed what a model is for
constexpr std::size_t kMostObserved = 320;        // trials that a fit conditions on
constexpr double kFitGrowth = 1.15;               // trials told from one fit to the next
constexpr int kFirstSteps = 30;
constexpr int kLaterSteps = 15;
constexpr double kLeastChance = 0.01;

double normal_density(double x) { return 0.3989422804014327 * std::exp(-x * x / 2); }
double normal_below(double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); }

// E[max(0, N(0, 1) + u)]; by its asymptote where the difference of the two terms would be lost.
double expected_excess(double u) {
  if (u < -5) return normal_density(u) / (u * u);
  return u * normal_below(u) + normal_density(u);
}

}  // namespace

bool is_point_of(const LegalSpace& space, std::span<const Position> point) {
  if (point.size() != space.parameters().size()) return false;
  for (std::size_t p = 0; p < point.size(); ++p) {
    if (point[p] >= space.parameters()[p].values.size()) return false;
  }
  return true;
}

Surrogate::Surrogate(const LegalSpace& space)
    : space_(space), encoding_(space), time_kernel_(encoding_.axes()), failure_kernel_(encoding_.axes()) {}

void Surrogate::append_row(ConfigId id, std::vector<Position>& rows) const {
  encoding_.append(space_, id, rows);
  if (similarity_.size() > 1) rows.resize(rows.size() + 2, 0);
}

void Surrogate::append_row(const HistoryPoint& past, std::vector<Position>& rows) const {
  encoding_.append(past.point, rows);
  rows.push_back(1);
  rows.push_back(static_cast<Position>(past.task));
}

void Surrogate::open(ConfigId id) {
  if (log_.size() >= kMostModelledTrials) return;
  Asked asked{.id = id};
  if (times_) {
    std::vector<Position> row;
    append_row(id, row);
    asked.in_times = times_->add_open(row);
    if (failures_) asked.in_failures = failures_->add_open(row);
  }
  asked_.push_back(asked);
}

void Surrogate::tell(const Observation& observation) {
  if (observation.id >= space_.size() || log_.find(observation.id) != nullptr) return;
  if (log_.size() >= kMostModelledTrials) {
    log_.add(observation);
    return;
  }
  const auto is_it = [&](const Asked& asked) { return asked.id == observation.id; };
  if (std::none_of(asked_.begin(), asked_.end(), is_it)) open(observation.id);
  log_.add(observation);
  observe(*std::find_if(asked_.begin(), asked_.end(), is_it), observation);
}

double Surrogate::value_of(double time) const { return (std::log(time) - centre_) / scale_; }

void Surrogate::observe(Asked& asked, const Observation& observation) {
  asked.told = true;
  if (!times_) return;
  const bool worked = has_usable_time(observation);
  if (worked) times_->set_value(asked.in_times, value_of(observation.time_us));
  if (failures_) failures_->set_value(asked.in_failures, (worked ? 0 : 1) - failure_rate_);
}

bool Surrogate::usable() const {
  if (encoding_.axes().empty() || log_.size() >= kMostModelledTrials) return false;
  return log_.successes() >= kFewestSuccesses || (log_.successes() > 0 && !past_.empty());
}

void Surrogate::add_to_pool(const std::vector<ConfigId>& ids) {
  std::vector<Position> rows;
  for (const ConfigId id : ids) append_row(id, rows);
  pool_.insert(pool_.end(), ids.begin(), ids.end());
  times_->add_members(rows);
  if (failures_) failures_->add_members(rows);
}

// A sample was drawn around what was fast at the last fit.
void Surrogate::add_neighbours_to_pool(ConfigId id) {
  if (in_pool_.empty()) return;
  std::vector<ConfigId> missing;
  for (const ConfigId neighbour : space_.neighbours(id)) {
    if (in_pool_[neighbour]) continue;
    in_pool_[neighbour] = true;
    missing.push_back(neighbour);
  }
  if (!missing.empty()) add_to_pool(missing);
}

void Surrogate::renew_pool(Random& random) {
  if (!pool_.empty() && space_.size() <= kWholeSpace) return;
  pool_ = make_candidate_pool(space_, pool_starts(), random);
  if (space_.size() > kWholeSpace) {
    in_pool_.assign(space_.size(), false);
    for (const ConfigId id : pool_) in_pool_[id] = true;
  }
  pool_rows_.clear();
  for (const ConfigId id : pool_) append_row(id, pool_rows_);
}

void Surrogate::refit(Random& random) {
  renew_pool(random);
  update_task_trust();
  const std::vector<Observation> trials = thin(log_.trials(), kMostObserved);
  std::vector<ConfigId> open;
  for (const Asked& asked : asked_) {
    if (!asked.told) open.push_back(asked.id);
  }
  asked_.clear();
  for (const Observation& trial : trials) asked_.push_back({.id = trial.id});
  for (const ConfigId id : open) asked_.push_back({.id = id});
  fit_times(trials);
  failures_.reset();
  if (log_.failures() > 0) fit_failures(trials);
  for (std::size_t i = 0; i < trials.size(); ++i) observe(asked_[i], trials[i]);
  ++fits_;
  next_fit_ = static_cast<std::size_t>(static_cast<double>(log_.size()) * kFitGrowth) + 1;
}

void Surrogate::fit_times(const std::vector<Observation>& trials) {
  const std::vector<double> offsets = task_offsets();
  std::vector<Position> past_rows;
  std::vector<double> past_values;
  for (const HistoryPoint& past : past_) {
    if (past.failed || !trusted_[past.task]) continue;
    append_row(past, past_rows);
    past_values.push_back(past.log_time - offsets[past.task]);
  }
  std::vector<Position> rows = past_rows;
  std::vector<double> values = past_values;
  for (const Observation& trial : thin(trials, kMostFitted)) {
    if (!has_usable_time(trial)) continue;
    append_row(trial.id, rows);
    values.push_back(std::log(trial.time_us));
  }
  const auto count = static_cast<double>(values.size());
  centre_ = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - centre_) * (value - centre_);
  scale_ = std::sqrt(squares / count) + 1e-9;
  for (double& value : values) value = (value - centre_) / scale_;
  fit_kernel(time_kernel_, rows, values, fits_ == 0 ? kFirstSteps : kLaterSteps, is_over_);

  times_.emplace(time_kernel_, pool_rows_);
  std::vector<Position> all_rows = past_rows;
  for (const Asked& asked : asked_) append_row(asked.id, all_rows);
  times_->add_open(all_rows);
  for (std::size_t i = 0; i < past_values.size(); ++i) times_->set_value(i, (past_values[i] - centre_) / scale_);
  for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i].in_times = past_values.size() + i;
}

void Surrogate::fit_failures(const std::vector<Observation>& trials) {
  std::vector<Position> past_rows;
  std::vector<double> past_labels;
  for (const HistoryPoint& past : past_) {
    if (!trusted_[past.task]) continue;
    append_row(past, past_rows);
    past_labels.push_back(past.failed ? 1 : 0);
  }
  std::vector<Position> rows = past_rows;
  std::vector<double> labels = past_labels;
  for (const Observation& trial : thin(trials, kMostFitted)) {
    append_row(trial.id, rows);
    labels.push_back(has_usable_time(trial) ? 0 : 1);
  }
  failure_rate_ = std::accumulate(labels.begin(), labels.end(), 0.0) / static_cast<double>(labels.size());
  for (double& label : labels) label -= failure_rate_;
  fit_kernel(failure_kernel_, rows, labels, kLaterSteps, is_over_);

  failures_.emplace(failure_kernel_, pool_rows_);
  std::vector<Position> all_rows = past_rows;
  for (const Asked& asked : asked_) append_row(asked.id, all_rows);
  failures_->add_open(all_rows);
  for (std::size_t i = 0; i < past_labels.size(); ++i) failures_->set_value(i, past_labels[i] - failure_rate_);
  for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i].in_failures = past_labels.size() + i;
}

double Surrogate::best_value() const { return value_of(log_.best_time()); }

double Surrogate::success_probability(std::size_t i) const {
  if (!failures_) return 1;
  return std::clamp(1 - failure_rate_ - failures_->mean(i), kLeastChance, 1.0);
}

double Surrogate::gain(std::size_t i, double best) const {
  const double deviation = times_->deviation(i);
  return scale_ * deviation * expected_excess((best - times_->mean(i)) / deviation) * success_probability(i);
}

bool Surrogate::is_candidate(ConfigId id, const Untried& untried, std::optional<ConfigId> beside) const {
  return untried.contains(id) && (!beside || space_.are_neighbours(id, *beside));
}

std::vector<ConfigId> Surrogate::leaders(const Untried& untried, std::optional<ConfigId> beside, std::size_t n) const {
  if (!times_) return {};
  std::vector<Ranked> picks;
  const double best = best_value();
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (!is_candidate(pool_[i], untried, beside)) continue;
    picks.push_back({pool_[i], gain(i, best)});
  }
  const auto end = picks.begin() + static_cast<std::ptrdiff_t>(std::min(n, picks.size()));
  std::partial_sort(picks.begin(), end, picks.end(), [](const Ranked& a, const Ranked& b) { return a.gain > b.gain; });
  std::vector<ConfigId> ids;
  for (auto pick = picks.begin(); pick != end; ++pick) ids.push_back(pick->id);
  return ids;
}

void Surrogate::fit_if_due(Random& random) {
  if (!times_ || log_.size() >= next_fit_) refit(random);
}

std::optional<ConfigId> Surrogate::pick(const Untried& untried, std::optional<ConfigId> beside, Random& random) {
  fit_if_due(random);
  if (beside) add_neighbours_to_pool(*beside);
  const double best = best_value();
  std::optional<Ranked> top;
  double top_u = 0;
  double top_deviation = 0;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (!is_candidate(pool_[i], untried, beside)) continue;
    const double deviation = times_->deviation(i);
    const double u = (best - times_->mean(i)) / deviation;
    // The gain grows with both: what is below in both cannot be better.
    if (top && u <= top_u && deviation <= top_deviation) continue;
    const Ranked candidate{pool_[i], gain(i, best)};
    if (top && candidate.gain <= top->gain) continue;
    top = candidate;
    // A doubtful candidate says nothing of the bare improvement that others must reach.
    if (success_probability(i) == 1) {
      top_u = u;
      top_deviation = deviation;
    } else {
      top_u = -std::numeric_limits<double>::infinity();
      top_deviation = 0;
    }
  }
  return top ? std::optional(top->id) : std::nullopt;
}

}  // namespace moetune
