#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "tuner/breakdowns.h"
#include "tuner/compile/launchable.h"
#include "tuner/compile_ahead.h"
#include "tuner/finals.h"
#include "tuner/trial_store.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Pruned candidates cost no trial; this bounds how many a search may compile in vain.
constexpr std::size_t kPrunedPerTrial = 10;
// Convergence is judged at these counts of trials: judging costs tens of milliseconds.
constexpr std::size_t kFirstJudgement = 40, kJudgeEvery = 20;

struct Pending {
  ConfigId id = 0;
  Config config;
  Plan plan;
  std::shared_future<BuildPtr> build;  // invalid where nothing is compiled
  std::optional<TrialResult> known;    // from the cache
};

bool is_ready(const Pending& pending) {
  return !pending.build.valid() ||
         pending.build.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

class TuneLoop {
 public:
  TuneLoop(const TuneRequest& request, TuneTools tools, std::stop_token stop)
      : request_(request),
        tools_(tools),
        stop_(std::move(stop)),
        store_(request_, tools_, breakdowns_),
        searcher_(make_searcher(request.strategy, *request.space, request.seed)),
        ahead_(request_, tools_, *searcher_) {
    searcher_->warm(request.histories);
  }

  TuneResult run();

 private:
  void enqueue(ConfigId id);
  void start_build(Pending& pending);
  double drop_limit() const;
  void refill();
  void take(ConfigId id);
  void resume();
  bool budget_left() const;
  bool is_over() const { return stop_.stop_requested() || result_.converged; }
  void step();
  void finish_next();
  std::optional<Pending> take_next();                                            // none where stopped
  std::optional<TrialResult> evaluate(const Pending& pending, BuildPtr* build);  // none where stopped
  BuildPtr wait_for(const std::shared_future<BuildPtr>& build);
  void finish(Pending pending, TrialResult result, const Build* build);
  void watch(const Trial& trial);
  void forgive_breakdowns();
  Confidence confidence() const;
  void judge_convergence();
  void announce(Phase phase) const { tools_.events.emit(PhaseChanged{phase}); }

  const TuneRequest& request_;
  TuneTools tools_;
  std::stop_token stop_;
  Breakdowns breakdowns_;
  TrialStore store_;
  std::unique_ptr<Searcher> searcher_;
  CompileAhead ahead_;
  KnownTrials known_;                               // the cache's
  std::unordered_map<ConfigId, std::size_t> done_;  // position in result_.trials
  std::deque<Pending> queue_;                       // in the order asked
  std::optional<std::size_t> best_;                 // position in result_.trials
  Clock::time_point begin_ = Clock::now();
  TuneResult result_;
};

TuneResult TuneLoop::run() {
  announce(Phase::preparing);
  known_ = store_.known_trials();
  if (request_.default_config) {
    if (const auto id = request_.space->find(*request_.default_config)) enqueue(*id);
  }
  const bool resumes = request_.ready_first && !known_.of_this_search.empty();
  if (!resumes) refill();  // the compiler is busy while the device makes its inputs and references
  tools_.device.set_stop(stop_);
  try {
    if (request_.kernel != nullptr) tools_.device.open(*request_.kernel, request_.problem, request_.seed);
  } catch (const Stopped&) {
    result_.interrupted = true;
  }
  result_.time.preparing = result_.time.wall = seconds_since(begin_);
  if (result_.interrupted) return std::move(result_);
  tools_.events.emit(
      SearchStarted{request_.space->size(), request_.budget, request_.time_budget_s, request_.work});

  announce(Phase::searching);
  if (resumes) resume();
  while (!queue_.empty() && !is_over()) step();
  result_.interrupted = stop_.stop_requested();
  result_.counts.unmeasured = ahead_.unmeasured();
  queue_.clear();

  const auto finishing = Clock::now();
  const double waited = result_.time.waiting;
  if (best_) {
    result_.confidence = confidence();
    if (result_.interrupted) {
      result_.best = result_.trials[*best_];
    } else {
      try {
        Finals(request_, tools_, store_, [this](const auto& build) {
          return wait_for(build);
        }).hold(result_, stop_);
      } catch (const Stopped&) {
        result_.interrupted = true;
        result_.best = result_.trials[*best_];
      }
    }
  }
  if (tools_.compiler != nullptr) {
    tools_.compiler->flush();
    result_.time.compiling = tools_.compiler->stats().compile_seconds;
  }
  result_.time.finishing = seconds_since(finishing) - (result_.time.waiting - waited);
  result_.time.wall = seconds_since(begin_);
  return std::move(result_);
}

void TuneLoop::enqueue(ConfigId id) {
  ahead_.asked(id);
  Pending pending{.id = id, .config = request_.space->config(id)};
  if (const auto known = known_.by_config.find(pending.config.text()); known != known_.by_config.end()) {
    pending.known = known->second;
  } else {
    start_build(pending);
  }
  queue_.push_back(std::move(pending));
}

void TuneLoop::start_build(Pending& pending) {
  if (request_.kernel == nullptr) return;
  pending.plan = request_.kernel->plan(pending.config, request_.problem, tools_.device.info().limits);
  if (tools_.compiler != nullptr) pending.build = tools_.compiler->submit(pending.plan.unit);
}

double TuneLoop::drop_limit() const {
  if (!best_) return request_.policy.drop_above_us;
  return std::min(request_.policy.drop_above_us,
                  request_.drop_factor * result_.trials[*best_].result.measurement.median_us);
}

bool TuneLoop::budget_left() const {
  if (result_.counts.total() + queue_.size() >= request_.budget) return false;
  if (result_.counts[Outcome::pruned] > kPrunedPerTrial * request_.budget) return false;
  return request_.time_budget_s <= 0 || seconds_since(begin_) < request_.time_budget_s;
}

void TuneLoop::refill() {
  while (queue_.size() < request_.in_flight && budget_left()) {
    const std::size_t room =
        std::min(request_.in_flight, request_.budget - result_.counts.total()) - queue_.size();
    const std::vector<ConfigId> ids = searcher_->ask(room);
    if (ids.empty()) {
      result_.exhausted = queue_.empty();
      break;
    }
    for (const ConfigId id : ids) take(id);
  }
  if (budget_left()) ahead_.run();
}

// What was asked: told again where it is done, the default among them.
void TuneLoop::take(ConfigId id) {
  const bool queued = std::any_of(queue_.begin(), queue_.end(), [&](const Pending& p) { return p.id == id; });
  if (const auto done = done_.find(id); done != done_.end()) {
    const TrialResult& result = result_.trials[done->second].result;
    searcher_->tell({id, result.outcome, result.measurement.median_us});
  } else if (!queued) {
    enqueue(id);
  }
}

// What this search measured before it was stopped, before it asks again: in another order of landing it may
// ask for other configurations, and what it found must not be lost.
void TuneLoop::resume() {
  for (const std::string& config : known_.of_this_search) {
    if (!budget_left()) break;
    if (const std::optional<ConfigId> id = request_.space->find_text(config)) take(*id);
    while (!queue_.empty() && queue_.back().known && !is_over()) finish_next();
  }
  if (!is_over()) refill();
}

void TuneLoop::step() {
  finish_next();
  if (!is_over()) refill();
}

void TuneLoop::finish_next() {
  std::optional<Pending> pending = take_next();
  if (!pending) return;
  if (pending->known && pending->known->outcome == Outcome::too_slow &&
      pending->known->measurement.median_us <= drop_limit()) {
    pending->known.reset();  // too slow for an earlier search's rule, not for this one's
    start_build(*pending);
  }
  tools_.events.emit(TrialBegun{pending->id, pending->config});
  BuildPtr build;
  const std::optional<TrialResult> result = pending->known ? pending->known : evaluate(*pending, &build);
  if (!result) return;
  finish(*std::move(pending), *result, build.get());
  if (tools_.compiler != nullptr) tools_.compiler->flush();
  judge_convergence();
}

std::optional<Pending> TuneLoop::take_next() {
  auto next = queue_.begin();
  if (request_.ready_first) {
    const auto begin = Clock::now();
    while ((next = std::find_if(queue_.begin(), queue_.end(), is_ready)) == queue_.end()) {
      if (stop_.stop_requested()) return std::nullopt;
      queue_.front().build.wait_for(std::chrono::milliseconds(1));
    }
    result_.time.waiting += seconds_since(begin);
  }
  Pending pending = std::move(*next);
  queue_.erase(next);
  return pending;
}

BuildPtr TuneLoop::wait_for(const std::shared_future<BuildPtr>& build) {
  const auto begin = Clock::now();
  while (build.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (stop_.stop_requested()) return nullptr;
  }
  result_.time.waiting += seconds_since(begin);
  return build.get();
}

std::optional<TrialResult> TuneLoop::evaluate(const Pending& pending, BuildPtr* build) {
  if (pending.build.valid()) {
    *build = wait_for(pending.build);
    if (*build == nullptr) return std::nullopt;
    if ((*build)->outcome != Outcome::ok) {
      return TrialResult{.outcome = (*build)->outcome, .message = (*build)->message};
    }
    std::string reason = why_unlaunchable(pending.plan, **build, tools_.device.info().limits);
    if (reason.empty()) reason = why_spilling(pending.plan, **build, request_.kernel->spill_limit_bytes());
    if (!reason.empty()) return TrialResult{.outcome = Outcome::pruned, .message = reason};
  }
  MeasurePolicy policy = request_.policy;
  policy.drop_above_us = drop_limit();
  const auto begin = Clock::now();
  try {
    TrialResult result = tools_.device.run({pending.config, pending.plan, *build}, policy);
    result_.time.validating += result.validate_s;
    result_.time.measuring += is_breakdown(result.outcome) ? seconds_since(begin) : result.measure_s;
    return result;
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

// A time that no search can use is no success, whoever reports it.
void refuse_odd_time(TrialResult& result) {
  if (!has_time(result.outcome) || has_usable_time({0, result.outcome, result.measurement.median_us})) return;
  result.message = "measured " + std::to_string(result.measurement.median_us) + " us, which is no time";
  result.outcome = Outcome::launch_failed;
}

void TuneLoop::finish(Pending pending, TrialResult result, const Build* build) {
  refuse_odd_time(result);
  Trial trial{pending.id, std::move(pending.config), std::move(result), pending.known.has_value()};
  if (!trial.resumed) store_.put(trial, build);
  searcher_->tell({trial.id, trial.result.outcome, trial.result.measurement.median_us});
  ++result_.counts[trial.result.outcome];
  result_.counts.resumed += trial.resumed;

  const std::size_t position = result_.trials.size();
  done_.emplace(trial.id, position);
  result_.trials.push_back(std::move(trial));
  const TrialResult& latest = result_.trials.back().result;
  if (latest.outcome == Outcome::ok &&
      (!best_ || latest.measurement.median_us < result_.trials[*best_].result.measurement.median_us)) {
    best_ = position;
  }
  tools_.events.emit(
      TrialEnded{result_.trials.back(), result_.counts, best_ ? &result_.trials[*best_] : nullptr});
  // A replay costs nothing, whatever it recorded.
  if (!tools_.device.info().recorded && !result_.trials.back().resumed) watch(result_.trials.back());
}

void TuneLoop::watch(const Trial& trial) {
  try {
    breakdowns_.saw(trial.config.text(), trial.result);
  } catch (const BrokenEnvironment&) {
    forgive_breakdowns();
    throw;
  }
}

// Where the machine is at fault, every configuration that broke down here deserves another try.
void TuneLoop::forgive_breakdowns() {
  for (const Trial& trial : result_.trials) {
    if (trial.resumed || !is_breakdown(trial.result.outcome)) continue;
    store_.forgive(trial);
  }
}

Confidence TuneLoop::confidence() const {
  std::vector<Observation> observations;
  for (const Trial& trial : result_.trials) {
    observations.push_back({trial.id, trial.result.outcome, trial.result.measurement.median_us});
  }
  return assess(*request_.space, observations, request_.floor_us);
}

void TuneLoop::judge_convergence() {
  const std::size_t trials = result_.trials.size();
  if (request_.until_gain <= 0 || trials < kFirstJudgement || trials % kJudgeEvery != 0) return;
  const Confidence now = confidence();
  result_.converged = now.known && now.expected_gain < request_.until_gain;
}

}  // namespace

std::size_t TrialCounts::total() const {
  std::size_t sum = 0;
  for (const Outcome outcome : kOutcomes) sum += outcome == Outcome::pruned ? 0 : (*this)[outcome];
  return sum;
}

double TimeSpent::other() const {
  return std::max(0.0, wall - preparing - waiting - validating - measuring - finishing);
}

TuneResult tune(const TuneRequest& request, TuneTools tools, std::stop_token stop) {
  TuneResult result = TuneLoop(request, tools, std::move(stop)).run();
  tools.events.emit(SearchEnded{result});
  return result;
}

}  // namespace moetune
