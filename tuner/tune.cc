#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "base/error.h"
#include "base/lists.h"
#include "base/profiler_range.h"
#include "tuner/circuit_breaker.h"
#include "tuner/compile/launchable.h"
#include "tuner/compile_ahead.h"
#include "tuner/finals.h"
#include "tuner/plausibility.h"
#include "tuner/quiet_watch.h"
#include "tuner/time_limit.h"
#include "tuner/trial_board.h"
#include "tuner/trial_store.h"
#include "tuner/unchecked_trials.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

double elapsed_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Pruned candidates cost no trial; this bounds how many a search may compile in vain.
constexpr std::size_t kPrunedPerTrial = 10;
// A trial that has begun may exceed the budget of time by this much; then it is stopped, with all that waits.
constexpr std::chrono::seconds kOverrun{10};
// The finals may then take this long, beside a multiple of the time for preparing: two duels and their surroundings.
// They get kOverrun if something had to be stopped already.
constexpr std::chrono::seconds kFinalsLimit{60};
constexpr double kFinalsPreparing = 4;
// Convergence is judged at these counts of trials: judging costs tens of milliseconds.
constexpr std::size_t kFirstJudgement = 40, kJudgeEvery = 20;

constexpr const char* kCompilerIsSlow =
    "The compiler has not answered for 10 s; each compilation is given 60 s, and --verbose shows what fails.";

// While a proposer thinks, the strategy keeps so many open that the device does not idle. On a recording, whose trials
// take no time, the proposer is waited for.
constexpr std::size_t kFilledIn = 4;

// After a stop request nobody waits longer for a build that is stored.
constexpr std::chrono::milliseconds kProvisionalWait{2000};

struct Pending {
  ConfigId id = 0;
  Config config;
  Plan plan;
  std::shared_future<BuildPtr> build;  // invalid where nothing is compiled
  std::optional<TrialResult> known;    // from the cache
};

bool is_ready(const Pending& pending) {
  return !pending.build.valid() || pending.build.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

class TuneLoop {
 public:
  TuneLoop(const TuneRequest& request, TuneTools tools, std::stop_token stop)
      : request_(request),
        tools_(tools),
        stop_(std::move(stop)),
        store_(request_, tools_, breaker_),
        ahead_(request_, tools_),
        board_(result_),
        watch_(tools_.device, tools_.events, request.quiet_wait_s, stop_),
        unchecked_(tools_, board_, store_, watch_) {
    make_searcher_afresh();
    limit_waits(begin_, request.time_budget_s + std::chrono::duration<double>(kOverrun).count());
    if (request.time_budget_s > 0) watch_.end_patience_at(moment(begin_, request.time_budget_s));
  }
  ~TuneLoop() {
    tools_.device.set_stop(stop_);
    if (tools_.compiler != nullptr) tools_.compiler->watch({}, {});
  }
  TuneLoop(const TuneLoop&) = delete;

  TuneResult run();

 private:
  static Clock::time_point moment(Clock::time_point from, double seconds) {
    constexpr double kLongest = 1e8;  // which a clock holds
    return from +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, kLongest)));
  }
  void limit_waits(Clock::time_point from, double seconds);
  void warn(const std::string& text) const { tools_.events.emit(Warning{WarningKind::waiting, text}); }
  void make_searcher_afresh();
  void search(bool resumes);
  void hold_finals();
  std::vector<Trial> known_elsewhere() const;
  void keep_provisionally(const std::vector<Trial>& others);
  std::optional<Candidate> built(const Config& config);
  void enqueue(ConfigId id);
  void start_build(Pending& pending);
  double drop_limit() const;
  void refill();
  std::vector<ConfigId> next(std::size_t room);
  void tell(const Trial& trial, const Build* build);
  bool is_proposer_done() const;
  void take(ConfigId id);
  void resume();
  bool budget_left() const;
  bool time_is_up() const;
  bool is_over() const { return limit_->is_over() || result_.converged; }
  bool has_enough() const;
  void step();
  void finish_next();
  std::optional<Pending> take_next();                                            // none where stopped
  std::optional<TrialResult> evaluate(const Pending& pending, BuildPtr* build);  // none where stopped
  TrialResult measure(const Candidate& candidate);
  BuildPtr wait_for(const std::shared_future<BuildPtr>& build);
  void finish(Pending pending, TrialResult result, BuildPtr build);
  void watch(const Trial& trial);
  void check_quiet();
  void mark_breakdowns_retryable();
  Confidence confidence() const;
  void judge_convergence();
  void announce(Phase phase) const { tools_.events.emit(PhaseChanged{phase}); }

  const TuneRequest& request_;
  TuneTools tools_;
  std::stop_token stop_;
  CircuitBreaker breaker_;
  TrialStore store_;
  std::unique_ptr<Searcher> searcher_;
  CompileAhead ahead_;
  KnownTrials known_;          // the cache's
  std::deque<Pending> queue_;  // in the order asked
  Clock::time_point begin_ = Clock::now();
  TuneResult result_;
  TrialBoard board_;
  QuietWatch watch_;
  UncheckedTrials unchecked_;
  std::optional<TimeLimit> limit_;  // of what is waited for now
};

// From now on a stop request ends what waits for the worker or the compiler, and a budget of time does.
void TuneLoop::limit_waits(Clock::time_point from, double seconds) {
  limit_.emplace(stop_, request_.time_budget_s > 0 ? std::optional(moment(from, seconds)) : std::nullopt);
  tools_.device.set_stop(limit_->token());
  if (tools_.compiler != nullptr) tools_.compiler->watch(limit_->token(), [this] { warn(kCompilerIsSlow); });
}

void TuneLoop::make_searcher_afresh() {
  const std::string_view strategy = request_.proposer != nullptr ? "auto" : std::string_view(request_.strategy);
  searcher_ = make_searcher(strategy, *request_.space, request_.seed);
  searcher_->end_when([this] { return stop_.stop_requested() || time_is_up(); });
  searcher_->warm(request_.histories);
}

TuneResult TuneLoop::run() {
  announce(Phase::preparing);
  known_ = store_.known_trials();
  if (request_.default_config) {
    if (const auto id = request_.space->find(*request_.default_config)) enqueue(*id);
  }
  const bool resumes = request_.ready_first && !known_.of_this_search.empty();
  if (!resumes) refill();  // the compiler is busy while the device makes its inputs and references
  bool is_ready = true;
  try {
    if (request_.kernel != nullptr) tools_.device.open(*request_.kernel, request_.problem, request_.seed);
  } catch (const Stopped&) {
    is_ready = false;
    result_.interrupted = stop_.stop_requested();
    result_.out_of_time = !result_.interrupted;
  }
  result_.time.preparing = result_.time.wall = elapsed_since(begin_);
  if (result_.out_of_time) warn("The time is over, and the inputs are not ready: what prepares them was stopped.");
  if (!is_ready) return std::move(result_);
  tools_.events.emit(SearchStarted{request_.space->size(), request_.budget, request_.time_budget_s, request_.work,
                                   request_.objective});

  search(resumes);
  if (request_.proposer != nullptr) request_.proposer->end();
  result_.interrupted = stop_.stop_requested();
  result_.out_of_time = !result_.interrupted && !result_.converged && !result_.exhausted &&
                        result_.counts.total() < request_.budget && time_is_up();
  if (tools_.compiler != nullptr) result_.counts.unmeasured = ahead_.unmeasured();
  queue_.clear();

  const auto finishing = Clock::now();
  const double waited = result_.time.waiting;
  hold_finals();
  if (tools_.compiler != nullptr) {
    tools_.compiler->flush();
    result_.time.compiling = tools_.compiler->stats().compile_seconds;
  }
  result_.contention = watch_.seen;
  result_.time.finishing = elapsed_since(finishing) - (result_.time.waiting - waited);
  result_.time.wall = elapsed_since(begin_);
  return std::move(result_);
}

void TuneLoop::search(bool resumes) {
  announce(Phase::searching);
  try {
    check_quiet();
    if (resumes) resume();
    while (!queue_.empty() && !is_over() && !has_enough()) step();
    if (limit_->is_over()) throw Stopped();
    check_quiet();
  } catch (const Stopped&) {
    unchecked_.give_up();
  } catch (const BrokenEnvironment&) {
    unchecked_.disown();
    throw;
  }
}

void TuneLoop::hold_finals() {
  const std::vector<Trial> others = known_elsewhere();
  if (board_.best() == nullptr && others.empty()) return;
  if (request_.assess && board_.best() != nullptr) result_.confidence = confidence();
  const std::chrono::duration<double> limit = limit_->is_over() ? kOverrun : kFinalsLimit;
  limit_waits(Clock::now(), limit.count() + kFinalsPreparing * result_.time.preparing);
  try {
    if (result_.interrupted) throw Stopped();
    Finals(request_, tools_, store_, watch_, [this](const auto& build) {
      return wait_for(build);
    }).run(result_, others, stop_);
  } catch (const Stopped&) {
    result_.interrupted = stop_.stop_requested();
    if (!result_.interrupted)
      warn("The finals did not end in time: the best so far is kept provisionally, without a duel.");
    keep_provisionally(others);
  }
}

// Results in the cache beside this search's own trials, so that a smaller budget reports no less than they do.
std::vector<Trial> TuneLoop::known_elsewhere() const {
  std::vector<Trial> others;
  for (const auto& [text, known] : known_.by_config) {
    const std::optional<ConfigId> id = request_.space->find_text(text);
    if (id && known.outcome == Outcome::ok && board_.find(*id) == nullptr)
      others.push_back({*id, request_.space->config(*id), known, true});
  }
  std::ranges::sort(others, {}, &Trial::id);  // whatever order the map has
  return others;
}

// A configuration whose build is at hand, or comes at once from the cache.
std::optional<Candidate> TuneLoop::built(const Config& config) {
  Candidate candidate{.config = config};
  candidate.plan = request_.kernel->plan(config, request_.problem, tools_.device.info().limits);
  const std::shared_future<BuildPtr> build = tools_.compiler->submit(candidate.plan.unit);
  if (build.wait_for(kProvisionalWait) != std::future_status::ready) return std::nullopt;
  candidate.build = build.get();
  if (candidate.build->outcome != Outcome::ok) return std::nullopt;
  return candidate;
}

// The best so far, by the trials alone: the default, if nothing was faster. The winner of an earlier duel stays stored.
void TuneLoop::keep_provisionally(const std::vector<Trial>& others) {
  std::vector<Trial> best = others;
  if (board_.best() != nullptr) best.push_back(*board_.best());
  const std::optional<ConfigId> default_id =
      request_.default_config ? request_.space->find(*request_.default_config) : std::nullopt;
  const Trial* const baseline = default_id ? board_.find(*default_id) : nullptr;
  if (baseline != nullptr) best.push_back(*baseline);
  result_.best = best[(request_.foreign ? rank_recorded(best) : rank_duel(best, default_id)).front()];
  if (baseline != nullptr) result_.baseline = *baseline;
  const bool may_store =
      tools_.cache != nullptr && tools_.compiler != nullptr && request_.store_winner && !result_.best->result.contended;
  if (!may_store || !store_.lacks_winner(result_.best->result.measurement.median_us)) return;
  std::optional<Candidate> winner = built(result_.best->config);
  if (!winner) return;
  result_.winner = *std::move(winner);
  if (baseline != nullptr && baseline->result.outcome == Outcome::ok) {
    if (std::optional<Candidate> default_candidate = built(baseline->config))
      result_.default_candidate = *std::move(default_candidate);
  }
  result_.provisional = true;
  store_.put_winner(result_);
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
  const Trial* const best = board_.best();
  if (best == nullptr) return request_.policy.drop_above_us;
  return std::min(request_.policy.drop_above_us, request_.drop_factor * best->result.measurement.median_us);
}

bool TuneLoop::budget_left() const {
  if (result_.counts.total() + queue_.size() >= request_.budget) return false;
  if (result_.counts[Outcome::pruned] > kPrunedPerTrial * request_.budget) return false;
  return !time_is_up();
}

// Whether configurations that were asked for before the time was up may stay undone. Those in the cache cost nothing.
bool TuneLoop::has_enough() const {
  return time_is_up() && board_.best() != nullptr &&
         std::none_of(queue_.begin(), queue_.end(), [](const Pending& pending) { return pending.known; });
}

bool TuneLoop::time_is_up() const {
  return request_.time_budget_s > 0 && elapsed_since(begin_) >= request_.time_budget_s;
}

void TuneLoop::refill() {
  while (queue_.size() < request_.in_flight && budget_left()) {
    const std::size_t room = std::min(request_.in_flight, request_.budget - result_.counts.total()) - queue_.size();
    const std::vector<ConfigId> ids = next(room);
    if (ids.empty()) {
      result_.exhausted = queue_.empty() && !is_proposer_done();
      break;
    }
    for (const ConfigId id : ids) take(id);
  }
  if (budget_left()) ahead_.run(*searcher_);
}

// The strategy's, if nobody else suggests.
std::vector<ConfigId> TuneLoop::next(std::size_t room) {
  Proposer* const proposer = request_.proposer;
  if (proposer == nullptr) return searcher_->ask(room);
  const std::vector<ConfigId> open = gathered(queue_, &Pending::id);
  const auto is_over = [this] { return limit_->is_over() || time_is_up(); };
  std::vector<ConfigId> ids = proposer->ask(room, open, request_.ready_first ? std::function<bool()>() : is_over);
  if (!ids.empty() || is_proposer_done()) return ids;
  if (proposer->state() == Proposer::State::gone) return searcher_->ask(room);
  const std::size_t wanted = request_.ready_first ? kFilledIn : 1;
  return queue_.size() < wanted ? searcher_->ask(std::min(room, wanted - queue_.size())) : ids;
}

bool TuneLoop::is_proposer_done() const {
  return request_.proposer != nullptr && request_.proposer->state() == Proposer::State::done;
}

void TuneLoop::tell(const Trial& trial, const Build* build) {
  searcher_->tell({trial.id, trial.result.outcome, trial.result.measurement.median_us});
  if (request_.proposer != nullptr) request_.proposer->tell(trial, build);
}

// Takes a configuration that was asked for: tells its result again if it has one, as the default may have.
void TuneLoop::take(ConfigId id) {
  const bool queued = std::any_of(queue_.begin(), queue_.end(), [&](const Pending& p) { return p.id == id; });
  if (const Trial* const done = board_.find(id)) {
    searcher_->tell({id, done->result.outcome, done->result.measurement.median_us});
  } else if (!queued) {
    enqueue(id);
  }
}

// First what this search measured before it was stopped: with results in another order it may not ask for it again.
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
  const ProfilerRange range([&] { return "trial " + pending->config.text(); });
  BuildPtr build;
  const std::optional<TrialResult> result = pending->known ? pending->known : evaluate(*pending, &build);
  if (!result) return;
  finish(*std::move(pending), *result, std::move(build));
  if (tools_.compiler != nullptr) tools_.compiler->flush();
  judge_convergence();
}

std::optional<Pending> TuneLoop::take_next() {
  auto next = queue_.begin();
  if (request_.ready_first) {
    const auto begin = Clock::now();
    for (bool is_said = false; (next = std::find_if(queue_.begin(), queue_.end(), is_ready)) == queue_.end();) {
      if (limit_->is_over()) return std::nullopt;
      queue_.front().build.wait_for(std::chrono::milliseconds(1));
      if (is_said || Clock::now() - begin < CompilePool::kSlow) continue;
      warn(kCompilerIsSlow);
      is_said = true;
    }
    result_.time.waiting += elapsed_since(begin);
  }
  Pending pending = std::move(*next);
  queue_.erase(next);
  return pending;
}

BuildPtr TuneLoop::wait_for(const std::shared_future<BuildPtr>& build) {
  const auto begin = Clock::now();
  BuildPtr built = tools_.compiler->wait_for(build);
  if (built != nullptr) result_.time.waiting += elapsed_since(begin);
  return built;
}

std::optional<TrialResult> TuneLoop::evaluate(const Pending& pending, BuildPtr* build) {
  if (pending.build.valid()) {
    *build = wait_for(pending.build);
    if (*build == nullptr) return std::nullopt;
    if ((*build)->outcome != Outcome::ok) {
      return TrialResult{.outcome = (*build)->outcome, .message = (*build)->message};
    }
    std::string reason = why_unlaunchable(pending.plan, **build, tools_.device.info().limits);
    if (reason.empty()) reason = why_spilling(pending.plan, **build);
    if (reason.empty()) reason = why_serialized(pending.plan, **build);
    if (!reason.empty()) return TrialResult{.outcome = Outcome::pruned, .message = reason};
  }
  const auto begin = Clock::now();
  try {
    TrialResult result = measure({pending.config, pending.plan, *build});
    result_.time.validating += result.validate_s;
    result_.time.measuring += is_breakdown(result.outcome) ? elapsed_since(begin) : result.measure_s;
    return result;
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

TrialResult TuneLoop::measure(const Candidate& candidate) {
  MeasurePolicy policy = request_.policy;
  policy.drop_above_us = drop_limit();
  const Trial* const best = board_.best();
  policy.prove_below_us =
      best != nullptr ? best->result.measurement.median_us : std::numeric_limits<double>::infinity();
  TrialResult result = tools_.device.run(candidate, policy);
  reject_impossible(result, request_.least_us);
  return result;
}

void TuneLoop::finish(Pending pending, TrialResult result, BuildPtr build) {
  Trial trial{pending.id, pending.config, std::move(result), pending.known.has_value()};
  if (!trial.resumed) store_.put(trial, build.get());
  tell(trial, build.get());
  const std::size_t position = board_.add(std::move(trial));
  const Trial& latest = result_.trials[position];
  const bool is_best = board_.best() == &latest;
  const double compiling_s = tools_.compiler != nullptr ? tools_.compiler->stats().compile_seconds : 0;
  tools_.events.emit(TrialEnded{latest, result_.counts, board_.best(), false, compiling_s});
  if (tools_.device.info().recorded || latest.resumed) return;  // a replay costs nothing
  unchecked_.add(position, {std::move(pending.config), std::move(pending.plan), std::move(build)});
  watch(latest);
  if (has_time(latest.result.outcome) && (is_best || watch_.is_due())) check_quiet();
}

void TuneLoop::check_quiet() {
  const auto begin = Clock::now();
  if (unchecked_.check([this](const Candidate& candidate) { return measure(candidate); })) {
    // No strategy can unlearn what it was told: another one learns what is true.
    make_searcher_afresh();
    for (const Trial& trial : result_.trials) tell(trial, nullptr);
  }
  result_.time.disturbed += elapsed_since(begin);
}

void TuneLoop::watch(const Trial& trial) {
  try {
    breaker_.record(trial.config.text(), trial.result);
  } catch (const BrokenEnvironment&) {
    mark_breakdowns_retryable();
    throw;
  }
}

// If the machine is at fault, every configuration that broke down here deserves another try.
void TuneLoop::mark_breakdowns_retryable() {
  for (const Trial& trial : result_.trials) {
    if (!trial.resumed && is_breakdown(trial.result.outcome)) store_.mark_retryable(trial);
  }
}

Confidence TuneLoop::confidence() const {
  return assess(*request_.space, board_.sound_observations(), request_.floor_us);
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
  return std::max(0.0, wall - preparing - waiting - validating - measuring - disturbed - finishing);
}

TuneResult tune(const TuneRequest& request, TuneTools tools, std::stop_token stop) {
  TuneResult result = TuneLoop(request, tools, std::move(stop)).run();
  tools.events.emit(SearchEnded{result});
  return result;
}

}  // namespace moetune
