// Measures chosen cubins at one problem, each with its best run-time values there: parameters that belong to the
// launch are tried without compiling anything. Every trial is committed as it lands, and what the cache holds is not
// run again.
//
// Belongs to the job's thread; what it is made from must outlive it. Throws Stopped, and BrokenEnvironment for a device
// on which one candidate after the other breaks down.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "jobs/range/launch_steps.h"
#include "jobs/range/state.h"
#include "jobs/session/job.h"
#include "jobs/session/session.h"
#include "tuner/circuit_breaker.h"
#include "tuner/judgement.h"
#include "tuner/quiet_watch.h"

namespace moetune {

class CellMeter {
 public:
  CellMeter(Session& session, const TuneSettings& settings, const JobContext& context);

  // The compiled part of a configuration: the name of its cubin.
  std::string cubin_of(const Config& config) const;

  // Goes to a problem. `is_open`: the device has it open already, from a search.
  void begin(bool is_open);

  // Configurations that were good for a cubin elsewhere, as places to begin; the best first.
  struct Hint {
    struct Origin {
      std::string config, problem;  // that it was measured on
    };
    std::string cubin;
    std::vector<Origin> origins;
  };
  // How much a cell is worth.
  struct Effort {
    std::size_t origins = 3;  // cells whose run-time values a cubin starts from
    std::size_t tries = 10;   // run-time values of one cubin; origins come before these
    // No more than its origins of a cubin that is slower than this times the best of the cell, and no more than two of
    // them if it is far slower; 0: no limit.
    double within = 0;
    std::size_t finalists = 12;
    // A configuration slower than this times the best of the cell takes no part in its duel.
    double duel_within = 1.3;
    DuelPolicy duel;
    MeasurePolicy policy;
    double seconds = 0;  // after which each cubin is tried with one configuration only; 0: no limit
  };
  Effort thorough() const;  // two seconds at most, and a duel as long as a search's
  Effort brief() const;     // a third of a second, and a short duel

  // Fills the cell's cubins and default. The fastest of the cubins meet in a duel, with the default if it is
  // near them; the others' times are those of single trials, in the duel's scale. Cubins that cannot run here have no
  // configuration then.
  void measure(const std::vector<Hint>& cubins, const Effort& effort, MeasuredCell& cell);

  // Takes what the trials of a cell say of how much the steps of run-time values matter; measure() does so by itself.
  void learn(const MeasuredCell& cell);

  // Whether what the cell says is true today: nothing of its problem's judge, nor of the plans of what was tried there,
  // was changed since (tuner/judgement.h), and something ran there.
  bool holds(const MeasuredCell& cell) const;

  // A configuration that is not to be chosen anywhere any more: it has no time from now on.
  void withdraw(const std::string& config) { withdrawn_.insert(config); }

  // Times of these configurations in one duel, as long as a search's; 0 for one that fails.
  std::vector<double> duel(const std::vector<std::string>& configs, bool& contended);

  // Whether a configuration computes what it should here, on inputs of its own.
  bool is_right(const std::string& config);

 private:
  std::vector<ConfigId> siblings(const std::string& cubin) const;
  std::vector<ConfigId> starting_points(const Hint& hint, const std::vector<ConfigId>& among) const;
  std::optional<ConfigId> best_known(const std::vector<ConfigId>& among) const;
  ConfigId nearest_sibling(std::span<const Position> point, const std::vector<ConfigId>& among) const;
  MeasuredConfig best_sibling(const Hint& hint, const Effort& effort);
  std::vector<std::string> finalists(const MeasuredCell& cell, const Effort& effort) const;
  double take_duel(const std::vector<std::string>& configs, const std::vector<double>& times,
                   const std::vector<Hint>& tried, MeasuredCell& cell);
  void take_default(const std::vector<std::string>& met, const std::vector<double>& times, double of_trial_us,
                    MeasuredCell& cell);
  std::string judged(const MeasuredCell& cell, const Judgement& judgement) const;
  std::vector<double> meet(const std::vector<std::string>& configs, const DuelPolicy& policy, bool& contended);
  double time_of(ConfigId id);  // infinity if it does not run
  void compile(const std::vector<Hint>& cubins);
  std::optional<Candidate> candidate(const Config& config, TrialResult& failure);
  void put(const Config& config, const TrialResult& result, const Build* build);
  void disown();

  Session& session_;
  const TuneSettings& settings_;
  const JobContext& context_;
  std::set<std::string> at_launch_;
  std::set<std::string> compiled_;  // cubins, whether it worked or not
  LaunchSteps steps_;
  std::int64_t workload_ = 0;
  Judgement judgement_;  // of the problem that it has begun
  double least_us_ = 0;  // likewise: what is faster is implausible
  std::map<std::string, TrialResult> known_;
  std::set<std::string> withdrawn_;
  double best_us_ = 0;  // of the cell; infinity before the first
  MeasurePolicy policy_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  CircuitBreaker breaker_;
  QuietWatch watch_;
  std::vector<Config> unchecked_;  // that ran since the last canary
};

}  // namespace moetune
