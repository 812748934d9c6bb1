// A device under tuning: a GPU behind a worker process (CudaDevice), or a recording (ReplayDevice). The tune
// loop knows only this interface.
//
// Not thread-safe: measuring is narrow, one candidate at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "keys/timing.h"
#include "launch/device_info.h"
#include "search/outcome.h"
#include "tuner/compile/build.h"

namespace moetune {

// Device time of one whole plan (all launches), cold inputs unless the kernel says otherwise. A recorded device has one
// time, of overlapping launches, and serves it whatever the timing.
struct Measurement {
  double median_us = 0;
  double low_us = 0, high_us = 0;  // 95% interval of the median; below six samples their range
  std::vector<double> samples_us;  // one a graph replay
  int sm_clock_mhz = 0;            // while they ran, their median; 0 where it cannot be told
  int memory_clock_mhz = 0;
  int temperature_c = 0;
  bool throttled = false;  // a slowdown reason was active at the end
  bool settled = true;     // of a duel: the clocks had settled under its load (tuner/worker/settling.h)
  // Set by a duel if clocks were held down and the time depends on them. The time then differs beside
  // configurations that draw more or less power.
  bool follows_clock = false;
};

struct MeasurePolicy {
  Timing timing = Timing::overlapped;
  double drop_above_us = std::numeric_limits<double>::infinity();  // after a quick look: clearly slower is too_slow
  int quick_samples = 2;
  int min_samples = 7;
  int max_samples = 40;
  double relative_width = 0.01;  // stop when (high-low)/median is under this
  double time_limit_s = 10;      // for validating and measuring one candidate together
  // A candidate that is faster than this is to be proven (tuner/worker/proof.h): it would lead.
  double prove_below_us = 0;
};

struct Candidate {
  Config config;
  Plan plan;
  BuildPtr build;
};

struct TrialResult {
  Outcome outcome = Outcome::ok;
  std::string message;
  Measurement measurement;
  double max_error = 0, dissimilarity = 0;  // of the worst output against the exact reference
  double error_share = 0;                   // of the largest error that is allowed
  double validate_s = 0, measure_s = 0;
  bool contended = false;  // measured while somebody else used the device: its time is no fact
};

// How long finalists meet.
struct DuelPolicy {
  int rounds = 11;  // one sample of each finalist in each
  Timing timing = Timing::overlapped;
  // A sample's least duration: starting a graph and an event before it take some 6 us, which a sample counts.
  double sample_us = 3000;
  double settling_s = 1.5;  // that it may take longer because clocks do not settle
  bool proves = false;      // each candidate afterwards, as MeasurePolicy::prove_below_us does
};

// The reading of a canary, a kernel of fixed work on a GPU that should be this process's alone
// (templates/common/timing.cuh).
struct CanaryReading {
  double elapsed_us = 0;
  double lost_us = 0;                  // of that, while it stood still: time slices of other processes
  double longest_gap_us = 0;           // the longest time slice
  double slow_share = 0;               // of its windows that ran, those slowed by something on the same SMs
  double windows_per_us = 0;           // work done while it ran: how fast the GPU is; 0: not known
  std::optional<int> other_processes;  // that NVML lists; nullopt if it does not know this one either
  bool throttled = false;              // clocks were lowered: no sign of other processes

  // Whether somebody else used the GPU meanwhile, so that medians suffer. A quiet GPU loses nothing; a
  // desktop's window manager loses 1 or 2%. Lower clocks alone disturb nothing.
  bool is_disturbed() const { return lost_us > 0.05 * elapsed_us || slow_share > 0.2; }
};

// Rates and costs of the machine around a GPU, by the names of kCeilingFigures (tuner/ceilings.h), and why others of
// them are unknown.
struct MachineFigures {
  std::map<std::string, double> values;
  std::map<std::string, std::string> failures;
};

// A stop request ended what a device was doing; the candidate that was running has no result.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // From now on a stop request ends open(), run(), duel() and verify() at once, with Stopped, on a device
  // where these may take long.
  virtual void set_stop(std::stop_token) {}

  // Prepares the inputs and the reference outputs of one problem. Throws BrokenEnvironment where the device
  // cannot hold them, BadInput where a recording has no such problem.
  virtual void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) = 0;

  // Validates, then measures. Never throws for what the candidate does: that is the outcome. BrokenEnvironment if the
  // device itself fails, for duel() and verify() too.
  virtual TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) = 0;

  // Measures the finalists in interleaved rounds, so that drift hits all alike; one result each, in order.
  virtual std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) = 0;

  // Looks whether somebody else uses the device, for some 5 ms. nullopt if that cannot be known, and for a
  // recording, which nobody disturbs. Throws BrokenEnvironment if the device itself fails. After open().
  virtual std::optional<CanaryReading> canary() { return std::nullopt; }

  // Measures the machine around a GPU, for some seconds; nothing of a recording. Throws BrokenEnvironment if the device
  // itself fails. After open().
  virtual MachineFigures measure_machine() { return {}; }

  // Validates on inputs from another seed; timed_out past the limit.
  virtual TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) = 0;
};

}  // namespace moetune
