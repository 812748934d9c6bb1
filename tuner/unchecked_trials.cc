#include "tuner/unchecked_trials.h"

#include <utility>

namespace moetune {

void UncheckedTrials::add(std::size_t position, Candidate candidate) {
  const Outcome outcome = board_[position].result.outcome;
  if (has_time(outcome)) {
    trials_.push_back({position, std::move(candidate)});
  } else if (outcome != Outcome::pruned && outcome != Outcome::compile_failed) {
    failures_.push_back(position);
  }
}

bool UncheckedTrials::check(const Measure& measure) {
  const bool quiet = watch_.is_quiet();  // may throw, and leaves them unchecked then
  const std::vector<Unchecked> trials = std::exchange(trials_, {});
  failures_.clear();  // the device works
  if (quiet) return false;
  // At once: what is stored must not pass for sound if this process is killed while it waits.
  mark(trials);
  std::vector<TrialResult> results;
  bool sound = false;
  try {
    sound = watch_.take_again([&] {
      results.clear();
      for (const Unchecked& trial : trials) results.push_back(measure(trial.candidate));
    });
  } catch (const Stopped&) {
    watch_.seen.contended += trials.size();
    throw;
  }
  if (sound) {
    watch_.seen.again += trials.size();
    replace(trials, std::move(results));
  } else {
    watch_.seen.contended += trials.size();
  }
  return sound && !trials.empty();
}

void UncheckedTrials::give_up() {
  const std::vector<Unchecked> trials = std::exchange(trials_, {});
  if (watch_.seen.canaries == 0) return;
  mark(trials);
  watch_.seen.unchecked += trials.size();
}

void UncheckedTrials::disown() {
  mark(std::exchange(trials_, {}));
  for (const std::size_t position : std::exchange(failures_, {})) {
    board_.mark_contended(position);
    store_.put(board_[position], nullptr);
  }
}

void UncheckedTrials::mark(const std::vector<Unchecked>& trials) {
  for (const Unchecked& trial : trials) {
    board_.mark_contended(trial.position);
    store_.put(board_[trial.position], trial.candidate.build.get());
  }
}

void UncheckedTrials::replace(const std::vector<Unchecked>& trials, std::vector<TrialResult> results) {
  for (std::size_t i = 0; i < trials.size(); ++i) {
    board_.replace(trials[i].position, std::move(results[i]));
    const Trial& trial = board_[trials[i].position];
    store_.put(trial, trials[i].candidate.build.get());
    tools_.events.emit(TrialEnded{trial, board_.counts(), board_.best(), true});
  }
}

}  // namespace moetune
