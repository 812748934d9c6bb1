// Typed events that a job reports while it runs: for a progress line, a log, a service.
//
// An event lives for the call that delivers it: a listener copies what it keeps. The listener runs on the
// job's thread and must not throw. Two jobs may share one listener, which then guards its own state; the
// job's id says whose event it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "launch/device_info.h"
#include "search/assignment.h"
#include "search/legal_space.h"
#include "search/objective.h"
#include "tuner/ceilings.h"
#include "tuner/device.h"

namespace moetune {

struct Trial;
struct TrialCounts;
struct TuneResult;

using JobId = std::uint64_t;  // chosen by the caller; 0 where there is one job only

enum class Phase { preparing, searching, duel, verifying, storing, calibrating, benchmarking };

std::string_view phase_name(Phase phase);  // "duel"

enum class WarningKind {
  cache,               // where the cache lies may cost speed or safety
  nothing_compiled,    // a replay goes without compiling
  other_sources,       // a stored winner is of other sources or another compiler
  no_ceilings,         // the ceilings could not be measured
  contended_winner,    // a stored winner was measured while somebody else used the device
  history_left_out,    // stored trials that cannot be read as experience, or a range's progress
  other_timing,        // a stored winner is of another timing than the one asked for
  recorded_timing,     // a recording serves times of overlapping launches for another timing
  unusual_time,        // a winner is a little faster than the floor
  provisional_winner,  // a stored winner is the best of a search that was interrupted
  proposer,            // a user's program that suggested configurations is left out
  waiting,             // the worker or the compiler does not answer
};

std::string_view warning_name(WarningKind kind);  // "other_sources"

// The workload and where it runs. `why_no_gpu` says why a recording stands in for a GPU; else it is empty.
struct DeviceChosen {
  const std::string& kernel;
  const std::string& problem;
  const DeviceInfo& device;
  const std::string& recorded_at;  // the date of a recording, if it says
  const std::string& why_no_gpu;
};

struct PhaseChanged {
  Phase phase;
};

// A search has its space, and its device is ready. A job may run several, one after the other.
struct SearchStarted {
  std::size_t legal;
  std::size_t budget;
  double time_budget_s;                     // 0: no limit
  Work work;                                // of one launch; 0 if unknown
  std::optional<Objective> objective = {};  // of another tuner's results: what the trials' times stand for
};

struct TrialBegun {
  ConfigId id;
  const Config& config;
};

struct TrialEnded {
  const Trial& trial;
  const TrialCounts& counts;
  const Trial* best;       // so far; null before the first that is valid
  bool again = false;      // measured before, while somebody else used the device; this replaces it
  double compiling_s = 0;  // of all compiler threads, since the compiler's start
};

// The canary shows somebody else's work on the device: a job that measures waits for a while, and one of
// the next two follows.
struct GpuDisturbed {
  const CanaryReading& reading;
};

// The device is quiet again, and what had been disturbed is measured again.
struct GpuQuiet {
  double waited_s;
};

// The device did not get quiet in time. Later measurements are marked as contended, and nothing waits any more.
struct GpuContended {
  double waited_s;
};

struct SearchEnded {
  const TuneResult& result;
};

// A range search has come further: a cell is measured, or a shape of its certificate.
struct RangeAdvanced {
  std::string_view stage;  // "search", "fill", "certificate"
  std::size_t done, planned;
  std::size_t cubins;   // in the table as it is now
  double worst_regret;  // of its cells
  double seconds_left;  // 0: no limit
};

struct CeilingMeasured {
  const DeviceInfo& device;
  const CeilingFigure& figure;
  double value;  // in the figure's unit
};

struct Warning {
  WarningKind kind;
  const std::string& text;  // one sentence
};

// The job's last event, unless it ends with an exception.
struct Finished {
  bool interrupted;
};

struct Event {
  JobId job;
  std::variant<DeviceChosen, PhaseChanged, SearchStarted, TrialBegun, TrialEnded, GpuDisturbed, GpuQuiet, GpuContended,
               SearchEnded, RangeAdvanced, CeilingMeasured, Warning, Finished>
      what;
};

using EventListener = std::function<void(const Event&)>;

// The receiver of a job's events.
struct Events {
  JobId job = 0;
  EventListener listener;  // empty: nobody listens

  // Takes any of the kinds above, and shows phases to a profiler too (base/profiler_range.h). Compiled once for each:
  // to make a variant of all of them takes long.
  template <typename What>
  void emit(const What& what) const;
};

// A visitor out of lambdas, for std::visit over Event::what.
template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace moetune
