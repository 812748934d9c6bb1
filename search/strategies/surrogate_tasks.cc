// The part of the model that learns from other tasks: trials of other problems and GPUs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "search/strategies/surrogate.h"
#include "search/strategies/thinning.h"

namespace moetune {
namespace {

constexpr std::size_t kFewestPast = 8;  // and at least so many of each
constexpr double kTaskDoubt = 2.0;      // tasks are expected to have less than half in common
constexpr double kElsewhereDoubt = 0.0;
constexpr double kLikeness = 0.8;          // of a task at no distance, another GPU's for one
constexpr double kLikeFor = 4.0;           // distance over which that falls to a part of e
constexpr double kSharpness = 4.0;         // of the kernel, where pairs of configurations are compared
constexpr std::size_t kMostPast = 128;     // trials of all histories together
constexpr double kLeastRight = 0.1;        // of all differences, for a task to be of use, and for all together
constexpr double kForetoldBefore = 0.7;    // of the logarithms' differences, credited to a task at first
constexpr std::size_t kPoolStarts = 8;     // of this problem and of each task, what the pool is drawn around
constexpr std::size_t kFewestToJudge = 4;  // measured here, before a task is judged by them

// The similarity of another task with this one, by its distance.
double similarity_at(double distance) { return kLikeness * std::exp(-std::max(distance, 0.0) / kLikeFor); }

Axis names_axis(std::size_t size) {
  Axis axis{.ordered = false, .at = std::vector<double>(size, 0), .rough = std::vector<double>(size * size, 0)};
  for (std::size_t i = 0; i < size; ++i) axis.rough[i * size + i] = 1;
  return axis;
}

// Two more axes where there are histories. One is whether a trial is of this problem or of any other: its
// relevance says how little experience is worth here, however well the others agree with each other. The
// other axis is whose: `similarity` of each task with the first, which is this one; two others are alike by way
// of this one.
std::vector<Axis> axes_with_task(std::vector<Axis> axes, const std::vector<double>& similarity) {
  const std::size_t tasks = similarity.size();
  if (tasks < 2) return axes;
  Axis elsewhere = names_axis(2);
  elsewhere.prior_relevance = kElsewhereDoubt;
  Axis task = names_axis(tasks);
  for (std::size_t i = 0; i < tasks; ++i) {
    for (std::size_t j = 0; j < tasks; ++j) {
      if (i != j) task.rough[i * tasks + j] = similarity[i] * similarity[j];
    }
  }
  task.prior_relevance = kTaskDoubt;
  axes.push_back(std::move(elsewhere));
  axes.push_back(std::move(task));
  return axes;
}

}  // namespace

void Surrogate::set_history(std::span<const History> histories) {
  past_.clear();
  similarity_.assign(1, 1.0);
  double sum = 0;
  for (const History& history : histories) sum += similarity_at(history.distance);
  for (const History& history : histories) {
    std::vector<Observation> known;  // by position in the history
    for (std::size_t i = 0; i < history.trials.size(); ++i) {
      const PastTrial& trial = history.trials[i];
      if (is_point_of(space_, trial.point)) known.push_back({static_cast<ConfigId>(i), trial.outcome, trial.time_us});
    }
    if (known.empty()) continue;
    const double similarity = similarity_at(history.distance);
    const auto share = static_cast<std::size_t>(kMostPast * similarity / sum);
    for (const Observation& kept : thin(known, std::max(share, kFewestPast))) {
      const std::vector<Position>& point = history.trials[kept.id].point;
      const bool failed = !has_usable_time(kept);
      past_.push_back({similarity_.size(), point, space_.find(point), failed, failed ? 0 : std::log(kept.time_us)});
    }
    similarity_.push_back(similarity);
  }
  trusted_.assign(similarity_.size(), true);
  time_kernel_ = ProductKernel(axes_with_task(encoding_.axes(), similarity_));
  time_kernel_.tabulate(false);
  failure_kernel_ = time_kernel_;
  pool_.clear();
}

// How alike two rows are except for their tasks, sharpened: the closest pairs of two tasks compare them.
double Surrogate::closeness(const Position* a, const Position* b) const {
  double product = 1;
  for (std::size_t axis = 0; axis < encoding_.axes().size(); ++axis)
    product *= time_kernel_.tables()[axis].row(a[axis])[b[axis]];
  return std::pow(product, kSharpness);
}

Surrogate::Timed Surrogate::timed_here() const {
  Timed here;
  for (const Observation& trial : thin(log_.trials(), kMostFitted)) {
    if (!has_usable_time(trial)) continue;
    encoding_.append(space_, trial.id, here.rows);
    here.log_times.push_back(std::log(trial.time_us));
  }
  return here;
}

// The offset to subtract from the logarithms of each task, so that tasks compare: the mean difference to this problem
// over pairs of configurations, weighted by how close they are. If nothing was measured here yet, the best of each
// task.
std::vector<double> Surrogate::task_offsets() const {
  const Timed here = timed_here();
  std::vector<double> difference(similarity_.size(), 0), weight(similarity_.size(), 0);
  std::vector<double> best(similarity_.size(), std::numeric_limits<double>::infinity());
  for (const HistoryPoint& past : past_) {
    if (past.failed) continue;
    best[past.task] = std::min(best[past.task], past.log_time);
    std::vector<Position> row;
    encoding_.append(past.point, row);
    for (std::size_t i = 0; i < here.log_times.size(); ++i) {
      const double close = closeness(row.data(), &here.rows[i * row.size()]) + 1e-12;
      weight[past.task] += close;
      difference[past.task] += close * (past.log_time - here.log_times[i]);
    }
  }
  std::vector<double> offsets(similarity_.size(), 0);
  for (std::size_t task = 1; task < similarity_.size(); ++task) {
    if (std::isinf(best[task])) continue;
    offsets[task] = weight[task] > 0 ? difference[task] / weight[task] : best[task];
  }
  return offsets;
}

bool Surrogate::trusts_history() const {
  return past_.empty() || std::any_of(trusted_.begin() + 1, trusted_.end(), [](bool trusted) { return trusted; });
}

// The fastest here, then those of each trusted task that are legal here: the pool of a large space is a
// sample, which should hold what was fast elsewhere and its neighbours.
std::vector<Observation> Surrogate::pool_starts() const {
  std::vector<Observation> starts = log_.fastest(kPoolStarts);
  std::vector<TrialLog> tasks(similarity_.size());
  for (const HistoryPoint& past : past_) {
    if (past.id && !past.failed && trusted_[past.task])
      tasks[past.task].add({*past.id, Outcome::ok, std::exp(past.log_time)});
  }
  for (const TrialLog& task : tasks) {
    const std::vector<Observation> fastest = task.fastest(kPoolStarts);
    starts.insert(starts.end(), fastest.begin(), fastest.end());
  }
  return starts;
}

// Over all pairs of what was measured here, the differences whose sign a task foretells, less those that it
// has the wrong way round, as a share of all. Winners from elsewhere differ by a few percent among
// themselves: such differences weigh little against those foretold before.
double Surrogate::pairwise_order_agreement(std::size_t task, const Timed& here) const {
  const std::size_t axes = encoding_.axes().size();
  std::vector<double> foretold(here.log_times.size(), 0), weight(here.log_times.size(), 1e-300);
  for (const HistoryPoint& past : past_) {
    if (past.failed || past.task != task) continue;
    std::vector<Position> row;
    encoding_.append(past.point, row);
    for (std::size_t i = 0; i < foretold.size(); ++i) {
      const double close = closeness(row.data(), &here.rows[i * axes]) + 1e-12;
      weight[i] += close;
      foretold[i] += close * past.log_time;
    }
  }
  double right = kForetoldBefore, all = kForetoldBefore;
  for (std::size_t i = 0; i < foretold.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double told = foretold[i] / weight[i] - foretold[j] / weight[j];
      const double difference = here.log_times[i] - here.log_times[j];
      right += std::copysign(1.0, told) * difference;
      all += std::abs(difference);
    }
  }
  return right / all;
}

// A task is left out of a fit where it hardly knows the order of what was measured here. Few measurements let
// one of several wrong tasks pass by luck: so all are left out where they hardly know it on average, each
// weighed by its similarity.
void Surrogate::update_task_trust() {
  trusted_.assign(similarity_.size(), true);
  const Timed here = timed_here();
  if (past_.empty() || here.log_times.size() < kFewestToJudge) return;
  double sum = 0, weight = 0;
  for (std::size_t task = 1; task < similarity_.size(); ++task) {
    const double share = pairwise_order_agreement(task, here);
    trusted_[task] = share >= kLeastRight;
    sum += similarity_[task] * share;
    weight += similarity_[task];
  }
  if (sum < kLeastRight * weight) std::fill(trusted_.begin() + 1, trusted_.end(), false);
}

}  // namespace moetune
