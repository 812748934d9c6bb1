// Trials and winners as the cache stores them. Pure conversions, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "tuner/device.h"

namespace moetune {

// The origin of a trial or a winner; written beside each result.
struct Provenance {
  std::string strategy;
  std::uint64_t seed = 0;
  std::size_t trials = 0;  // behind a winner; 0 for a trial
  std::string device;      // "cuda:0", "replay:..."
  std::string driver;
  std::string uuid = {};                               // of a winner's or a table's GPU; "" for a recording
  std::optional<GpuSettings> settings = std::nullopt;  // of the same
  bool final_breakdown = false;                        // of a trial that hung or crashed before and did so again
  std::string judged = {};   // Judgement::of a trial's configuration, of_problem() of a winner; "" of a recording
  bool provisional = false;  // of a winner: its search was interrupted before a duel
};

// So many of a trial's samples are stored beside its median: a resumed recording has them again.
inline constexpr std::size_t kStoredSamples = 5;

// Registers, spilled bytes and static shared memory: the most of any entry.
EntryFacts worst_facts(const Build& build);

// The provenance of a winner or a table that was found on the device.
Provenance provenance_of(const std::string& strategy, std::uint64_t seed, const DeviceInfo& device);
std::string provenance_text(const Provenance& provenance);  // JSON, with moetune's version

TrialRecord to_record(const Config& config, const TrialResult& result, const Build* build,
                      const Provenance& provenance);

// Whether the outcome may be due to the moment rather than the configuration: a time limit or a crash that
// was not tried twice, another process's memory or its work on the device, a compiler that broke down. Such a
// trial is kept for the reports and run again.
bool should_retry(const TrialRecord& record);

// Whether a search with this strategy and seed measured it.
bool belongs_to_search(const TrialRecord& record, const std::string& strategy, std::uint64_t seed);

// nullopt if this version does not know the record's outcome, or its time is no time: such a trial is run
// again. The samples do not come back, only the median and its interval.
std::optional<TrialResult> from_record(const TrialRecord& record);

// `default_candidate` is the default, without a build if it has none, and `baseline` its result in the same duel, if
// it has one; `roofline` is 0 if unknown.
WinnerRecord to_winner(const Candidate& winner, const TrialResult& result, const Candidate& default_candidate,
                       const TrialResult* baseline, double roofline, const Provenance& provenance);

// The stored plan and cubin, ready to load again; the build carries no log and no facts.
Candidate from_winner(const WinnerRecord& winner, const Config& config);

}  // namespace moetune
