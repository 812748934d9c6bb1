// What a service has done since it started, as Prometheus reads it. Thread-safe.
#pragma once

#include <array>
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
  std::map<std::string, bool> busy;  // by device
};

class Metrics {
 public:
  void count_event(const std::string& device, const Event& event);
  void count_job(const std::string& kind, JobState state);
  void count_response(int status);
  void count_misses(std::uint64_t misses);
  void count_ended_process();  // for its memory

  std::string text(const MetricGauges& gauges) const;  // text/plain; version=0.0.4

 private:
  mutable std::mutex mutex_;
  std::array<std::uint64_t, kOutcomes.size()> outcomes_{};
  std::uint64_t resumed_ = 0, misses_ = 0, ended_processes_ = 0;
  double compile_seconds_ = 0;
  std::map<std::string, double> busy_seconds_;                            // by device
  std::map<std::pair<std::string, JobState>, std::uint64_t> ended_jobs_;  // by kind and state
  std::map<int, std::uint64_t> responses_;                                // by status
};

}  // namespace moetune
