// A search's progress for people. On a terminal one line that is redrawn at most ten times a second;
// elsewhere a line every ten seconds, so that a log stays short.
//
// Used on the tuning thread; writes to stderr only. Never throws.
#pragma once

#include <chrono>
#include <string>

#include "cli/output.h"
#include "tuner/tune.h"

namespace moetune {

class Progress : public TuneObserver {
 public:
  struct Settings {
    std::size_t budget = 0;
    double time_budget_s = 0;  // 0: no limit
    double bytes = 0;          // for TB/s; 0 where unknown
    bool verbose = false;      // a line a trial instead
  };

  Progress(const Output& output, Settings settings);
  ~Progress() override;

  void started(std::size_t legal, std::size_t budget) override;
  void trial_done(const Trial& trial, const TrialCounts& counts, const Trial* best) override;
  void phase(const std::string& name) override;
  void finished() { erase(); }  // before anything else is printed

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(const TrialCounts& counts, const Trial* best, double elapsed) const;
  double seconds_left(const TrialCounts& counts, double elapsed) const;
  void draw(const std::string& text);
  void erase();

  const Output& output_;
  Settings settings_;
  bool terminal_;
  bool drawn_ = false;  // a live line stands on the terminal
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace moetune
