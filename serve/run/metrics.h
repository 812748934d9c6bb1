// Counters of a service since it started, as Prometheus reads them. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "serve/queue/job_queue.h"
#include "tuner/events.h"

namespace moetune {

// The current values beside the counters.
struct MetricGauges {
  std::map<JobState, std::int64_t> jobs;
  double queue_age_s = 0;  // of the job that waits longest
  std::size_t connections = 0;
  std::uint64_t closed_connections = 0;  // that were too many
  std::map<std::string, bool> busy;      // by device
};

class Metrics {
 public:
  Metrics();
  // A job runs on the device from the first to the second.
  void begin_job(const std::string& device);
  void end_job(const std::string& device);
  void count_event(const std::string& device, const Event& event);
  void count_job(const std::string& kind, JobState state);
  void count_response(int status);
  void count_misses(std::uint64_t misses);
  void count_ended_process();  // for its memory

  std::string text(const MetricGauges& gauges) const;  // text/plain; version=0.0.4

 private:
  using Clock = std::chrono::steady_clock;
  using Values = std::map<std::string, std::map<std::string, double>>;  // by metric, then by labels
  struct Used {
    double busy_s = 0;
    Clock::time_point since;
    bool is_busy = false;
    // The part of the running search that is counted already.
    double measured_s = 0, compiled_s = 0;
  };
  void count(const char* metric, const std::string& labels, double value);
  // These want mutex_ held.
  void add(const char* metric, const std::string& labels, double value);
  void add_compiling(Used& used, double compiling_s);
  void add_trial(const std::string& device, const TrialEnded& ended);

  mutable std::mutex mutex_;
  Values values_;
  std::map<std::string, Used> used_;  // by device
};

}  // namespace moetune
