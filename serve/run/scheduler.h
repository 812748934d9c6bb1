// Runs the jobs of a queue: one worker thread a device, and one thread that watches deadlines. What happens goes into
// the event log and the metrics.
//
// Thread-safe. Its destruction stops what runs and puts it back into the queue. Owns its threads; the queue, the log
// and the metrics must outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "serve/queue/job_queue.h"
#include "serve/run/event_log.h"
#include "serve/run/job_runner.h"
#include "serve/run/metrics.h"

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
  // Whether a device is to run a job that names none; empty: all are alike. Called under the queue's lock.
  std::function<bool(const JobRecord&, const std::string& device)> fits;
  std::function<void(const JobRecord&)> ended;  // from the worker's thread, after a job that is done
};

class Scheduler {
 public:
  Scheduler(JobQueue& queue, EventLog& log, Metrics& metrics, SchedulerSettings settings);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  std::vector<JobQueue::Submitted> submit(const std::vector<JobRecord>& jobs);  // as JobQueue::submit
  // Ends an open job: a queued one at once, a running one by request. nullopt if there is no such job.
  std::optional<JobRecord> cancel(std::int64_t id);
  // Takes one request back (JobQueue::withdraw); the job ends with the last.
  JobQueue::Ending withdraw(std::int64_t id, const std::string& ticket);

  // The progress of a running job: {"phase", "trials", "budget", "best_us", "curve": [[trial, best_us], ...]}; else
  // null.
  Document progress(std::int64_t id) const;
  std::map<std::string, std::int64_t> running() const;  // the job of each device; 0 if it is idle

 private:
  using Clock = std::chrono::steady_clock;
  enum class EndReason { none, cancelled, deadline, too_long, shutdown, disturbed };
  struct Running {
    std::stop_source stop;
    EndReason why = EndReason::none;
    Clock::time_point started = Clock::now();
    std::string device;
    Document progress = Document::object();
    double best_us = 0;
  };

  void work(std::stop_token stop, const std::string& device);
  class Turn;  // a job's entry in running_
  void run(const JobRecord& job, const std::string& device, const std::stop_token& closing);
  void settle(const JobRecord& job, JobOutcome outcome, const std::stop_token& closing);
  void record_end(const JobRecord& job, const JobOutcome& outcome, EndReason why);
  JobOutcome outcome_of(const JobRecord& job, const std::string& device, std::stop_token stop);
  void put_off(const JobRecord& job);
  void watch(std::stop_token stop);
  void stop_late_jobs();
  void on_event(const std::string& device, const Event& event);
  void announce(const JobRecord& job);
  void follow_up(const JobQueue::Ending& ending, EndReason why);
  bool is_quiet(std::int64_t id) const;
  void end_as(std::int64_t id, EndReason why);
  void stop_if_ended(std::int64_t id);
  void wake();
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

}  // namespace moetune
