// The end of a search: the best few meet again in interleaved rounds, and the winner is checked on fresh
// inputs.
//
// Belongs to the tuning thread. Its arguments must outlive it.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "tuner/quiet_watch.h"
#include "tuner/trial_store.h"
#include "tuner/tune.h"

namespace moetune {

// Two medians closer than this count as a tie: noise must not choose between equals.
inline constexpr double kTie = 0.003;

// Positions of `trials` ordered as the duel ranks them: ok before the rest, then by median. In a tie the
// default comes first, then the lower ConfigId.
std::vector<std::size_t> rank_duel(const std::vector<Trial>& trials, std::optional<ConfigId> default_id = std::nullopt);

// The same for recorded times of a kernel that moetune does not have: they hold no noise and there is no default, so
// that the fastest comes first, and of equal times the first text of a configuration. It needs no space, which a cache
// does not keep.
std::vector<std::size_t> rank_recorded(const std::vector<Trial>& trials);

class Finals {
 public:
  // Waits for a build; null where the search is to stop.
  using Wait = std::function<BuildPtr(const std::shared_future<BuildPtr>&)>;

  Finals(const TuneRequest& request, const TuneTools& tools, TrialStore& store, QuietWatch& watch, Wait wait);

  // Lets the best of the result's trials and of `others`, which earlier searches measured, meet until one stands the
  // duel and the verification, and stores it.
  // Sets best and winner of `result`, unless none stands, and baseline, where the default met the others.
  // Throws Stopped.
  void run(TuneResult& result, std::vector<Trial> others, const std::stop_token& stop);

 private:
  struct Finalist {
    Trial trial;
    Candidate candidate;
  };
  struct Duel {
    std::vector<Trial> trials;          // the finalists with their duel results, in the order given
    std::optional<std::size_t> winner;  // among them; none where none stood the duel and the verification
    std::optional<TrialResult> served;  // the winner's, by itself
  };

  std::optional<std::vector<Finalist>> next_finalists(const TuneResult& result);
  std::vector<Trial> best_outside_duels(const TuneResult& result) const;
  std::optional<Finalist> prepare(const Trial& trial);
  Duel duel(const std::vector<Finalist>& finalists);
  TrialResult verify(const Candidate& candidate, double time_us);
  // The same finalists under the other timings, which choose nothing, if the request asks for them.
  void measure_timings(const std::vector<Finalist>& finalists, const Duel& own, TuneResult& result);
  bool run_round(const std::vector<Finalist>& finalists, TuneResult& result);
  // A finalist timed by itself, as it is served; nullopt where the duel's time does not depend on the others.
  std::optional<TrialResult> by_itself(const Candidate& candidate, const TrialResult& dueled);
  // The default by itself, too, if the winner was. By these times as well the default wins a tie.
  void serve_default(TuneResult& result);

  const TuneRequest& request_;
  const TuneTools& tools_;
  TrialStore& store_;
  QuietWatch& watch_;
  Wait wait_;
  std::optional<ConfigId> default_id_;
  std::vector<Trial> others_;
  std::set<ConfigId> dueled_;  // finalists of the duels so far
};

}  // namespace moetune
