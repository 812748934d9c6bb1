// Measures chosen cubins at one problem, each with its best run-time values there: parameters that belong to the
// launch are tried without compiling anything. Every trial is committed as it lands, and what the cache holds is not
// run again.
//
// Belongs to the job's thread; what it is made from must outlive it. Throws Stopped, and BrokenEnvironment for a device
// on which one candidate after the other breaks down.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "jobs/job.h"
#include "jobs/range_state.h"
#include "jobs/session.h"
#include "tuner/circuit_breaker.h"
#include "tuner/quiet_watch.h"

namespace moetune {

class CellMeter {
 public:
  CellMeter(Session& session, const TuneSettings& settings, const JobContext& context);

  // The compiled part of a configuration: the name of its cubin.
  std::string cubin_of(const Config& config) const;

  // Goes to a problem. `is_open`: the device has it open already, from a search.
  void begin(bool is_open);

  // A configuration that was good for a cubin elsewhere, as a place to begin.
  struct Hint {
    std::string cubin;
    std::string config;   // "": none is known
    std::string problem;  // that it was measured on
  };
  // Fills the cell's cubins and default from one duel of all. Cubins that cannot run here have no configuration then.
  void measure(const std::vector<Hint>& cubins, RangeCellState& cell);

  // Times of these configurations in one duel; 0 for one that fails.
  std::vector<double> duel(const std::vector<std::string>& configs, bool& contended);

 private:
  static constexpr std::size_t kMostTries = 10;  // of run-time values of one cubin

  std::vector<ConfigId> siblings(const std::string& cubin) const;
  ConfigId starting_point(const Hint& hint, const std::vector<ConfigId>& among) const;
  std::size_t launch_distance(ConfigId a, ConfigId b) const;
  MeasuredConfig best_sibling(const Hint& hint);
  double time_of(ConfigId id);  // infinity if it does not run
  std::optional<Candidate> candidate(const Config& config, TrialResult& failure);
  void put(const Config& config, const TrialResult& result, const Build* build);

  Session& session_;
  const TuneSettings& settings_;
  const JobContext& context_;
  std::set<std::string> at_launch_;
  std::int64_t workload_ = 0;
  std::map<std::string, TrialResult> known_;
  double best_us_ = 0;  // of the cell; infinity before the first
  CircuitBreaker breaker_;
  QuietWatch watch_;
};

}  // namespace moetune
