// A search's progress for people. On a terminal one line that is redrawn at most ten times a second;
// elsewhere a line every ten seconds, so that a log stays short. Both go on, with the time so far, while
// nothing comes to an end: a long compilation, a candidate that hangs.
//
// The observer's calls come from the tuning thread; a thread of its own keeps the line moving. Writes to
// stderr only: while one lives, whoever else writes there calls finished() first. Never throws.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/output.h"
#include "tuner/tune.h"

namespace moetune {

// Whether stderr is a terminal that can redraw a line: none does with TERM unset, empty or "dumb".
bool stderr_redraws();

class Progress : public TuneObserver {
 public:
  struct Settings {
    std::size_t budget = 0;
    double time_budget_s = 0;  // 0: no limit
    double bytes = 0;          // for TB/s; 0 where unknown
    bool verbose = false;      // a line a trial instead
    bool redraws = stderr_redraws();
    std::chrono::milliseconds log_every{10'000};
  };

  Progress(const Output& output, Settings settings);
  ~Progress() override;

  void started(std::size_t legal, std::size_t budget) override;
  void trial_done(const Trial& trial, const TrialCounts& counts, const Trial* best) override;
  void phase(const std::string& name) override;
  void finished();  // ends it, before anything else is printed

 private:
  using Clock = std::chrono::steady_clock;

  void keep_moving(std::stop_token stop);
  bool live() const { return settings_.redraws && !settings_.verbose; }
  // Those below want mutex_ held.
  void show(Clock::time_point now);
  std::string line(double elapsed) const;
  // nullopt before there is anything to tell it from.
  std::optional<double> seconds_left(double elapsed) const;
  void draw(const std::string& text);
  void erase();

  const Output& output_;
  const Settings settings_;

  std::mutex mutex_;
  bool drawn_ = false;  // a live line stands on the terminal
  bool searching_ = false;
  std::string phase_;
  TrialCounts counts_;
  double best_us_ = 0;  // 0 where there is none
  Clock::time_point begin_ = Clock::now(), last_ = begin_;

  std::condition_variable_any ended_;
  std::jthread mover_;  // last: it uses all of the above
};

}  // namespace moetune
