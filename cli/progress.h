// A search's progress for people. On a terminal one line that is redrawn at most ten times a second;
// elsewhere a line every ten seconds, so that a log stays short. Both go on, with the time so far, while
// nothing comes to an end: a long compilation, a candidate that hangs.
//
// Listens to a job's events, from the job's thread; a thread of its own keeps the line moving. Notes what
// note_of() says too. Writes to stderr only: while one lives, all other writers call finished()
// first. Never throws.
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

class Progress {
 public:
  struct Settings {
    bool verbose = false;  // a line a trial instead
    bool redraws = stderr_redraws();
    std::chrono::milliseconds log_every{10'000};
  };

  Progress(const Output& output, Settings settings);
  ~Progress();

  void handle(const Event& event);
  EventListener listener() {
    return [this](const Event& event) { handle(event); };
  }
  void finished();  // ends it, before anything else is printed

 private:
  using Clock = std::chrono::steady_clock;

  void keep_moving(std::stop_token stop);
  bool live() const { return settings_.redraws && !settings_.verbose; }
  // Those below want mutex_ held.
  void started(const SearchStarted& search);
  void trial_ended(const TrialEnded& trial);
  void phase_changed(Phase phase);
  void search_ended();
  void range_advanced(const RangeAdvanced& range);
  void show(Clock::time_point now);
  std::string line(double elapsed) const;
  // nullopt before there is anything to tell it from.
  std::optional<double> seconds_left(double elapsed) const;
  void draw(const std::string& text);
  void erase();

  const Output& output_;
  const Settings settings_;

  std::mutex mutex_;
  bool drawn_ = false;                   // a live line stands on the terminal
  std::optional<SearchStarted> search_;  // that goes on
  std::optional<Phase> phase_;           // none before the first and after a search
  TrialCounts counts_;
  double best_us_ = 0;  // 0 where there is none
  std::string best_;    // in words
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
  Clock::time_point last_range_{};

  std::condition_variable_any ended_;
  std::jthread mover_;  // last: it uses all of the above
};

}  // namespace moetune
