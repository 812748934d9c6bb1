// Runs the jobs of a queue: one worker thread a device, and one thread that watches deadlines. What happens goes into
// the event log and the metrics.
//
// Thread-safe. Its destruction stops what runs and puts it back into the queue. Owns its threads; the queue, the log
// and the metrics must outlive it.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "serve/event_log.h"
#include "serve/job_queue.h"
#include "serve/job_runner.h"
#include "serve/metrics.h"

namespace moetune {

// How a job that nobody waits for keeps out of the way of whoever uses its GPU.
struct QuietPolicy {
  std::uint64_t wait_s = 30;     // for a quiet GPU, at a time
  std::int64_t put_off_s = 120;  // then the job is queued again, for so long
};

struct SchedulerSettings {
  std::vector<std::string> devices;  // "cuda:0", "replay:FILE": a worker each
  RunnerSettings runner;
  JobLimits limits;
  QuietPolicy quiet;
  std::function<void(const JobRecord&)> ended;  // from the worker's thread, after a job that is done
};

class Scheduler {
 public:
  Scheduler(JobQueue& queue, EventLog& log, Metrics& metrics, SchedulerSettings settings);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  JobQueue::Submitted submit(const JobRecord& job);
  // Of an open job: a queued one ends, a running one is asked to. nullopt if there is no such job.
  std::optional<JobRecord> cancel(std::int64_t id);

  // What a running job has reached: {"phase", "trials", "budget", "best_us", "curve": [[trial, best_us], ...]}; else
  // null.
  Document progress(std::int64_t id) const;
  std::map<std::string, std::int64_t> running() const;  // the job of each device; 0 if it is idle

 private:
  enum class EndReason { none, cancelled, deadline, shutdown, disturbed };
  struct Running {
    std::stop_source stop;
    EndReason why = EndReason::none;
    std::int64_t deadline = 0;
    bool quiet = false;
    std::string device;
    Document progress = Document::object();
    double best_us = 0;
  };

  void work(std::stop_token stop, const std::string& device);
  void run(const JobRecord& job, const std::string& device);
  JobOutcome outcome_of(const JobRecord& job, const std::string& device, std::stop_token stop);
  void put_off(const JobRecord& job);
  void watch(std::stop_token stop);
  void stop_late_jobs();
  void on_event(const std::string& device, const Event& event);
  void announce(const JobRecord& job);
  void warn(std::int64_t job, const std::string& text);
  void end_as(std::int64_t id, EndReason why);
  static void advance(Running& running, const Event& event);

  JobQueue& queue_;
  EventLog& log_;
  Metrics& metrics_;
  const SchedulerSettings settings_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t news_ = 0;  // grows with every submission
  bool closing_ = false;
  std::map<std::int64_t, Running> running_;  // by job
  std::vector<std::jthread> threads_;        // last: they use all of the above
};

// A job as JSON. `whole` adds request and result.
Document job_document(const JobRecord& job, const Document& progress, bool whole);

}  // namespace moetune
