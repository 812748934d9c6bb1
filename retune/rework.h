// One workload of a night: a probe of the present winner, the remedy that triage chooses, and a contest that a new
// winner must win before it is stored. Knows neither caches nor GPUs, so that simulated nights run the same code.
//
// For the thread that owns the subject. Throws what the subject throws; Stopped if a stop was requested.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retune/contest.h"
#include "search/legal_space.h"
#include "staleness/triage.h"
#include "tuner/tune.h"

namespace moetune {

struct OldTrial {
  std::string config;  // canonical
  double time_us = 0;
};

// A workload that is reworked.
class ReworkSubject {
 public:
  virtual ~ReworkSubject() = default;

  virtual Device& device() = 0;
  virtual const LegalSpace& space() = 0;
  virtual std::optional<ConfigId> default_id() = 0;
  virtual Timing timing() { return Timing::overlapped; }  // of its winner, its trials and all duels
  // A shorter time is implausible; 0 if nothing is known (tuner/plausibility.h).
  virtual double least_us() { return 0; }
  // The present winner, ready to run; nullopt if there is none that is sound.
  virtual std::optional<Candidate> incumbent() = 0;
  // Whether it was found to be right by today's references, inputs and checks.
  virtual bool is_proven() { return true; }
  virtual std::vector<OldTrial> old_trials() = 0;  // measured with it, without those that have no exact time
  // Configurations that served before it, the latest first: they are probed beside it, and come back if they win.
  virtual std::vector<std::string> earlier() { return {}; }
  virtual std::optional<Candidate> prepare(ConfigId id) = 0;  // nullopt if it does not compile
  virtual void open_device() = 0;
  virtual TuneResult search(Remedy remedy) = 0;  // stores trials, and no winner
  virtual void store(const TuneResult& result) = 0;
  // Whether a search's best is the incumbent itself, built from the same sources by the same compiler.
  virtual bool is_incumbent(const TuneResult& result) = 0;
};

enum class ReworkVerdict {
  tuned,      // there was no winner
  improved,   // a new winner was stored
  kept,       // the present one stays
  postponed,  // somebody else used the GPU: the next night tries again
  failed,     // nothing valid was found
  stopped,    // time was up before anything was found, or Ctrl-C
};

std::string_view rework_verdict_name(ReworkVerdict verdict);  // "improved"

struct ReworkResult {
  ReworkVerdict verdict = ReworkVerdict::stopped;
  std::optional<Triage> triage;    // none if there was no winner
  std::optional<Contest> contest;  // none if none was held
  std::string reason;              // one sentence
  bool unfinished = false;         // time was up in its search: what that found counts, and the next night goes on
  std::size_t trials = 0;
  double best_us = 0;  // of what is served now; 0 if unknown
};

struct ReworkSettings {
  std::uint64_t quiet_wait_s = 600;
  // From then on nothing waits for a quiet GPU; none: the wait alone bounds it.
  std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;
  int contest_rounds = kContestRounds;
  // The remedy of a search that was stopped: it goes on without a probe, whose old times are forgotten.
  std::optional<Remedy> resumed;
};

using RemedyListener = std::function<void(const Triage&)>;

ReworkResult rework(ReworkSubject& subject, const ReworkSettings& settings, const Events& events, std::stop_token stop,
                    const RemedyListener& chosen = {});

inline constexpr std::size_t kProbedEarlier = 8;  // as many as `cache gc` keeps

// The configurations that a probe measures beside the winner: the default, the fastest three and some of the rest, and
// beside these ten at most kProbedEarlier of the winners before it (`earlier`), which come first.
std::vector<OldTrial> choose_panel(const std::vector<OldTrial>& trials, const std::string& winner,
                                   const std::string& default_config, const std::vector<std::string>& earlier = {});

}  // namespace moetune
