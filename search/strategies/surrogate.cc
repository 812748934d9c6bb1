#include "search/strategies/surrogate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "search/strategies/candidate_pool.h"
#include "search/strategies/evidence.h"

namespace moetune {
namespace {

constexpr std::size_t kFewestSuccesses = 3;
constexpr std::size_t kMostTrials = 500;    // a search this long has passed what a model is for
constexpr std::size_t kMostObserved = 320;  // trials that a fit conditions on
constexpr std::size_t kMostFitted = 128;    // trials that hyper-parameters are fitted to
constexpr std::size_t kMostPast = 128;      // trials of all histories together
constexpr std::size_t kFewestPast = 8;      // and at least so many of each
constexpr double kTaskDoubt = 2.0;          // tasks are expected to have less than half in common
constexpr double kLikeness = 0.8;           // of a task at no distance, another GPU's for one
constexpr double kLikeFor = 4.0;            // distance over which that falls to a part of e
constexpr double kSharpness = 4.0;          // of the kernel, where pairs of configurations are compared
constexpr double kFitGrowth = 1.15;         // trials told from one fit to the next
constexpr int kFirstSteps = 30;
constexpr int kLaterSteps = 15;
constexpr double kLeastChance = 0.01;
constexpr std::size_t kPoolStarts = 8;

// The half of `count` that leads, then the rest in even strides, in the order they came.
std::vector<std::size_t> leaders_and_strides(const std::vector<std::size_t>& ranked, std::size_t count) {
  std::vector<std::size_t> chosen = ranked;
  if (ranked.size() > count) {
    const std::size_t leaders = count / 2;
    const std::size_t others = count - leaders;
    const std::size_t left = ranked.size() - leaders;
    chosen.resize(leaders);
    for (std::size_t i = 0; i < others; ++i) chosen.push_back(ranked[leaders + i * left / others]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// Fastest first, failures last.
std::vector<Observation> thin(const std::vector<Observation>& trials, std::size_t count) {
  std::vector<std::size_t> ranked(trials.size());
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  const auto time = [&](std::size_t i) {
    return has_usable_time(trials[i]) ? trials[i].time_us : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](std::size_t a, std::size_t b) { return time(a) < time(b); });
  std::vector<Observation> kept;
  for (const std::size_t i : leaders_and_strides(ranked, count)) kept.push_back(trials[i]);
  return kept;
}

// What a task has in common with this one, by its distance.
double likeness_at(double distance) { return kLikeness * std::exp(-std::max(distance, 0.0) / kLikeFor); }

// `likeness` of each task with the first, which is this one. Two others are alike by way of this one.
std::vector<Axis> axes_with_task(std::vector<Axis> axes, const std::vector<double>& likeness) {
  const std::size_t tasks = likeness.size();
  if (tasks < 2) return axes;
  Axis task{
      .ordered = false, .at = std::vector<double>(tasks, 0), .rough = std::vector<double>(tasks * tasks, 0)};
  for (std::size_t i = 0; i < tasks; ++i) {
    for (std::size_t j = 0; j < tasks; ++j) task.rough[i * tasks + j] = i == j ? 1 : likeness[i] * likeness[j];
  }
  task.prior_relevance = kTaskDoubt;
  axes.push_back(std::move(task));
  return axes;
}

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

Surrogate::Surrogate(const LegalSpace& space, FactTable* facts)
    : space_(space),
      encoding_(space),
      facts_(facts),
      time_kernel_(encoding_.axes()),
      failure_kernel_(encoding_.axes()) {}

std::vector<Axis> Surrogate::axes() const {
  std::vector<Axis> all = axes_with_task(encoding_.axes(), likeness_);
  if (facts_ != nullptr) all.insert(all.end(), facts_->axes().begin(), facts_->axes().end());
  return all;
}

void Surrogate::set_history(std::span<const History> histories) {
  past_.clear();
  likeness_ = {1};
  double sum = 0;
  for (const History& history : histories) sum += likeness_at(history.distance);
  for (const History& history : histories) {
    std::vector<Observation> known;  // by position in the history
    for (std::size_t i = 0; i < history.trials.size(); ++i) {
      const PastTrial& trial = history.trials[i];
      if (is_point_of(space_, trial.point))
        known.push_back({static_cast<ConfigId>(i), trial.outcome, trial.time_us});
    }
    if (known.empty()) continue;
    const double likeness = likeness_at(history.distance);
    const auto share = static_cast<std::size_t>(kMostPast * likeness / sum);
    for (const Observation& kept : thin(known, std::max(share, kFewestPast))) {
      const std::vector<Position>& point = history.trials[kept.id].point;
      const bool failed = !has_usable_time(kept);
      past_.push_back(
          {likeness_.size(), point, space_.find(point), failed, failed ? 0 : std::log(kept.time_us)});
    }
    likeness_.push_back(likeness);
  }
  time_kernel_ = ProductKernel(axes());
  time_kernel_.tabulate(false);
  failure_kernel_ = time_kernel_;
  pool_.clear();
}

void Surrogate::append_row(ConfigId id, std::vector<Position>& rows) const {
  encoding_.append(space_, id, rows);
  if (likeness_.size() > 1) rows.push_back(0);
  if (facts_ != nullptr) facts_->append(id, rows);
}

void Surrogate::append_row(const Past& past, std::vector<Position>& rows) const {
  encoding_.append(past.point, rows);
  rows.push_back(static_cast<Position>(past.task));
  if (facts_ != nullptr) facts_->append(past.id, rows);
}

void Surrogate::open(ConfigId id) {
  if (log_.size() >= kMostTrials) return;
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
  if (log_.size() >= kMostTrials) {
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
  if (facts_ != nullptr && facts_->ids().empty()) return false;
  if (encoding_.axes().empty() || log_.size() >= kMostTrials) return false;
  return log_.successes() >= kFewestSuccesses || (log_.successes() > 0 && past_.size() >= kFewestPast);
}

// How alike two rows are but for their tasks, sharpened: the closest pairs of two tasks compare them.
double Surrogate::closeness(const Position* a, const Position* b) const {
  double product = 1;
  for (std::size_t axis = 0; axis < encoding_.axes().size(); ++axis)
    product *= time_kernel_.tables()[axis].row(a[axis])[b[axis]];
  return std::pow(product, kSharpness);
}

// What to subtract from the logarithms of each task, so that tasks compare: the mean difference to this
// problem over pairs of configurations, weighed by how close they are. Where nothing was measured here yet,
// the best of each task.
std::vector<double> Surrogate::task_offsets() const {
  std::vector<double> here_times;
  std::vector<Position> here_rows;
  for (const Observation& trial : thin(log_.trials(), kMostFitted)) {
    if (!has_usable_time(trial)) continue;
    encoding_.append(space_, trial.id, here_rows);
    here_times.push_back(std::log(trial.time_us));
  }
  std::vector<double> difference(likeness_.size(), 0), weight(likeness_.size(), 0);
  std::vector<double> best(likeness_.size(), std::numeric_limits<double>::infinity());
  for (const Past& past : past_) {
    if (past.failed) continue;
    best[past.task] = std::min(best[past.task], past.log_time);
    std::vector<Position> row;
    encoding_.append(past.point, row);
    for (std::size_t i = 0; i < here_times.size(); ++i) {
      const double close = closeness(row.data(), &here_rows[i * row.size()]) + 1e-12;
      weight[past.task] += close;
      difference[past.task] += close * (past.log_time - here_times[i]);
    }
  }
  std::vector<double> offsets(likeness_.size(), 0);
  for (std::size_t task = 1; task < likeness_.size(); ++task) {
    if (std::isinf(best[task])) continue;
    offsets[task] = weight[task] > 0 ? difference[task] / weight[task] : best[task];
  }
  return offsets;
}

void Surrogate::join(ConfigId id) {
  if (!times_) return;
  std::vector<Position> row;
  append_row(id, row);
  pool_.push_back(id);
  times_->add_members(row);
  if (failures_) failures_->add_members(row);
}

void Surrogate::renew_pool(Random& random) {
  if (facts_ != nullptr) {
    facts_->settle();
    time_kernel_.replace_axes(axes());
    time_kernel_.tabulate(false);
    failure_kernel_.replace_axes(axes());
    pool_ = facts_->ids();
  } else if (pool_.empty() || space_.size() > kWholeSpace) {
    pool_ = make_candidate_pool(space_, log_.fastest(kPoolStarts), random);
  } else {
    return;
  }
  pool_rows_.clear();
  for (const ConfigId id : pool_) append_row(id, pool_rows_);
}

void Surrogate::refit(Random& random) {
  renew_pool(random);
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
  for (const Past& past : past_) {
    if (past.failed) continue;
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
  fit_kernel(time_kernel_, rows, values, fits_ == 0 ? kFirstSteps : kLaterSteps);

  times_.emplace(time_kernel_, pool_rows_);
  std::vector<Position> all_rows = past_rows;
  for (const Asked& asked : asked_) append_row(asked.id, all_rows);
  times_->add_open(all_rows);
  for (std::size_t i = 0; i < past_values.size(); ++i)
    times_->set_value(i, (past_values[i] - centre_) / scale_);
  for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i].in_times = past_values.size() + i;
}

void Surrogate::fit_failures(const std::vector<Observation>& trials) {
  std::vector<Position> past_rows;
  std::vector<double> past_labels;
  for (const Past& past : past_) {
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
  fit_kernel(failure_kernel_, rows, labels, kLaterSteps);

  failures_.emplace(failure_kernel_, pool_rows_);
  std::vector<Position> all_rows = past_rows;
  for (const Asked& asked : asked_) append_row(asked.id, all_rows);
  failures_->add_open(all_rows);
  for (std::size_t i = 0; i < past_labels.size(); ++i)
    failures_->set_value(i, past_labels[i] - failure_rate_);
  for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i].in_failures = past_labels.size() + i;
}

double Surrogate::best_value() const { return value_of(log_.best_time()); }

double Surrogate::chance_to_work(std::size_t i) const {
  if (!failures_) return 1;
  return std::clamp(1 - failure_rate_ - failures_->mean(i), kLeastChance, 1.0);
}

std::optional<Surrogate::Pick> Surrogate::pick(const Untried& untried, Random& random) {
  if (!times_ || log_.size() >= next_fit_) refit(random);
  const double best = best_value();
  std::optional<Pick> top;
  double top_u = 0;
  double top_deviation = 0;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (!untried.contains(pool_[i])) continue;
    const double deviation = times_->deviation(i);
    const double u = (best - times_->mean(i)) / deviation;
    // The gain grows with both: what is below in both cannot be better.
    if (top && u <= top_u && deviation <= top_deviation) continue;
    const double gain = scale_ * deviation * expected_excess(u) * chance_to_work(i);
    if (top && gain <= top->gain) continue;
    top = Pick{pool_[i], gain};
    // A doubtful candidate says nothing of the bare improvement that others must reach.
    if (chance_to_work(i) == 1) {
      top_u = u;
      top_deviation = deviation;
    } else {
      top_u = -std::numeric_limits<double>::infinity();
      top_deviation = 0;
    }
  }
  return top;
}

}  // namespace moetune
