// The trials since the last canary, which may have been disturbed or run on a device that no longer works, and what it
// takes to measure them again. Belongs to the tuning thread; what it is made from must outlive it.
#pragma once

#include <functional>
#include <vector>

#include "tuner/quiet_watch.h"
#include "tuner/trial_board.h"
#include "tuner/trial_store.h"

namespace moetune {

class UncheckedTrials {
 public:
  using Measure = std::function<TrialResult(const Candidate&)>;

  UncheckedTrials(const TuneTools& tools, TrialBoard& board, TrialStore& store, QuietWatch& watch)
      : tools_(tools), board_(board), store_(store), watch_(watch) {}

  // Takes a trial that has just ended; ignores those that did not run.
  void add(std::size_t position, Candidate candidate);

  // Runs the canary. If it is disturbed, measures them again once the device is quiet; if it does not become
  // so, they are contended, on the board and in the store. True if they were measured again. Throws Stopped.
  bool check(const Measure& measure);

  // For a search that is stopped before the next canary: nobody knows whether they were disturbed, so they count as
  // contended, on the board and in the store, and the next search measures them again. Nothing on a device without a
  // canary.
  void give_up();

  // For a device that has failed: nobody knows since when. All of them, failures too, count as contended, on the board
  // and in the store, and the next search runs them again.
  void disown();

 private:
  struct Unchecked {
    std::size_t position = 0;  // on the board
    Candidate candidate;
  };

  void mark(const std::vector<Unchecked>& trials);
  void replace(const std::vector<Unchecked>& trials, std::vector<TrialResult> results);

  const TuneTools& tools_;
  TrialBoard& board_;
  TrialStore& store_;
  QuietWatch& watch_;
  std::vector<Unchecked> trials_;
  std::vector<std::size_t> failures_;
};

}  // namespace moetune
