// What a service has done since it started, as Prometheus reads it. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "search/outcome.h"
#include "serve/job_queue.h"
#include "tuner/events.h"

namespace moetune {

// What the text says beside the counters, as it is now.
struct MetricGauges {
  std::map<JobState, std::int64_t> jobs;
  double queue_age_s = 0;  // of the job that waits longest
  std::size_t connections = 0;
  std::uint64_t closed_connections = 0;  // that were too many
  std::map<std::string, bool> busy;      // by device
};

class Metrics {
 public:
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
  struct Used {
    double busy_s = 0, measuring_s = 0;
    Clock::time_point since;
    bool is_busy = false;
    // Of the search that runs: what is counted already.
    double measured_s = 0, compiled_s = 0;
  };
  void count_trial(Used& used, const TrialEnded& ended);
  void count_compiling(Used& used, double compiling_s);

  mutable std::mutex mutex_;
  std::array<std::uint64_t, kOutcomes.size()> outcomes_{};
  std::uint64_t resumed_ = 0, misses_ = 0, ended_processes_ = 0;
  double compile_seconds_ = 0;
  std::map<std::string, Used> used_;                                      // by device
  std::map<std::pair<std::string, JobState>, std::uint64_t> ended_jobs_;  // by kind and state
  std::map<int, std::uint64_t> responses_;                                // by status
};

}  // namespace moetune
