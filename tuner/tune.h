// The tune loop: ask, compile wide, prune, validate and measure narrow, tell, commit, duel, verify, store.
// Stateless; a search runs on its caller's thread, and only compiling is on others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "kernels/kernel.h"
#include "search/confidence.h"
#include "search/legal_space.h"
#include "search/objective.h"
#include "search/searcher.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/contention.h"
#include "tuner/device.h"
#include "tuner/events.h"
#include "tuner/proposer.h"
#include "tuner/timings.h"

namespace moetune {

struct TrialCounts {
  std::array<std::size_t, kOutcomes.size()> by_outcome{};
  std::size_t resumed = 0;     // of those, taken from the cache instead of run
  std::size_t unmeasured = 0;  // beside them: compiled ahead and never asked

  std::size_t& operator[](Outcome outcome) { return by_outcome[static_cast<std::size_t>(outcome)]; }
  std::size_t operator[](Outcome outcome) const { return by_outcome[static_cast<std::size_t>(outcome)]; }
  std::size_t total() const;  // all but pruned: what the budget counts
};

struct Trial {
  ConfigId id = 0;
  Config config;
  TrialResult result;
  bool resumed = false;
};

// The use of the wall time, in seconds. Every part but `compiling` is of the loop's thread, and with other() they add
// up to `wall`.
struct TimeSpent {
  double wall = 0;
  double preparing = 0;  // inputs, references
  double waiting = 0;    // for the compiler, with nothing to measure
  double validating = 0;
  double measuring = 0;  // search trials; of one that hung or crashed, until its end
  double disturbed = 0;  // canaries, waiting for a quiet device, and what is measured again then
  double finishing = 0;  // duel, verification, storing; what is waited for meanwhile counts as `waiting`
  double compiling = 0;  // summed over compiler threads, overlapped with the rest

  // The strategy's choices, storing trials, and the worker's own part: messages, loading, starting again.
  double other() const;
};

// How to search. These defaults are the only ones: the command line's help shows them.
struct TuneSettings {
  std::string strategy = "auto";
  std::uint64_t seed = 1;
  std::size_t budget = 200;  // trials
  // 0: no limit. Work that has begun then is finished, and finals follow. A worker or compiler that does not answer
  // gets ten seconds more, in the finals a minute or so (tune.cc).
  double time_budget_s = 0;
  // Configurations asked ahead; fixed, so that a trajectory does not depend on cores.
  std::size_t in_flight = 32;
  std::size_t finalists = 5;
  int duel_rounds = 11;
  MeasurePolicy policy;
  // A trial slower than this times the best is dropped after the quick look. On recorded spaces 1.5 saved
  // 13-19% of the GPU time and lost no winner. Infinity: none is dropped.
  double drop_factor = 1.5;
  bool fresh = false;  // ignore the cache's trials of this workload
  // Whether the finalists meet under the other timings as well (timings.h), which takes two more duels.
  bool all_timings = false;
  // How long to wait in all, while somebody else uses the device. Then the search goes on, and what it
  // measures is marked as contended.
  std::uint64_t quiet_wait_s = 30;
  // Above 0: the search also ends where kMoreTrials more would be expected to gain less than this fraction.
  double until_gain = 0;
};

struct TuneRequest : TuneSettings {
  const Kernel* kernel = nullptr;  // null for a recording of a kernel that is not moetune's: nothing is compiled
  bool foreign = false;            // the recording's kernel is not moetune's: its finals are ranked by rank_recorded()
  Problem problem;
  const LegalSpace* space = nullptr;
  std::optional<Config> default_config;
  // Measures first what is compiled first, so that nothing waits for a slow compilation. For devices whose
  // times differ from run to run anyhow: in the order asked, one seed gives one trajectory whatever the
  // compiler's speed.
  bool ready_first = false;
  Proposer* proposer = nullptr;    // suggests beside the strategy "auto"; `strategy` has its name, for provenance
  std::vector<History> histories;  // trials from elsewhere that the strategy may start from
  Work work;                       // of one launch, for SearchStarted; 0 if unknown
  // The problem's floor for launches that may overlap (tuner/ceilings.h), which bounds what is expected of
  // more trials; 0 if it is unknown.
  double floor_us = 0;
  // No launch takes less (tuner/plausibility.h): faster trials are implausible. 0 if it is unknown.
  double least_us = 0;
  // The meaning of the device's times, if they are another tuner's results (search/objective.h).
  std::optional<Objective> objective = {};
  bool assess = true;        // TuneResult::confidence is wanted: a tenth of a second of the CPU
  bool store_winner = true;  // false: the caller stores it, or leaves it (tuner/trial_store.h)
};

struct TuneResult {
  bool interrupted = false;
  bool provisional = false;  // interrupted, and `best` is stored as the best of the trials so far
  bool exhausted = false;    // the strategy had nothing left to ask
  bool converged = false;    // ended by TuneSettings::until_gain
  bool out_of_time = false;  // ended by TuneSettings::time_budget_s
  Confidence confidence;     // in the best found, from the trials; unknown without TuneRequest::assess
  TrialCounts counts;
  // The winner of the duel, verified; what the cache knows of earlier searches of the workload takes part.
  std::optional<Trial> best;
  std::optional<Trial> baseline;      // the default configuration, measured in the same duel
  std::vector<double> tied;           // medians of the finalists that tie with `best` (tuner/finals.h), fastest first
  std::vector<TimingResult> timings;  // with all_timings; empty for a recording, which has one timing
  Candidate winner;                   // plan and build of `best`, where it was compiled
  Candidate default_candidate;        // the same of the default, if it was right in that duel
  Contention contention;
  TimeSpent time;
  std::vector<Trial> trials;  // in the order measured
};

struct TuneTools {
  Device& device;
  Cache* cache = nullptr;           // null: nothing is stored
  std::int64_t workload = 0;        // in `cache`
  CompilePool* compiler = nullptr;  // null: replay without compiling
  Events events;
};

// Runs one search. Trials are committed as they land; a stop request ends it after the current trial, and the best so
// far is stored as a provisional winner if there is no other. Trials
// that the cache already holds for this workload are told, not run, unless another try may end otherwise.
// Throws BrokenEnvironment and BadInput; never for a candidate.
TuneResult tune(const TuneRequest& request, TuneTools tools, std::stop_token stop);

}  // namespace moetune
