#include "serve/run/scheduler.h"

#include <malloc.h>

#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/json.h"
#include "serve/queue/job_document.h"
#include "serve/run/event_json.h"
#include "serve/run/served_devices.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

constexpr std::chrono::milliseconds kWatch{200}, kRetry{1000};
constexpr std::int64_t kMostStarts = 5;  // then the job is what kills the service
constexpr std::size_t kMostCurve = 512;
constexpr int kStoppedExit = 130;

JobOutcome ended_as(JobState state, const char* code, const char* message) {
  return {.state = state, .result = {}, .error = job_error(code, message), .exit_code = kStoppedExit};
}

JobOutcome cancelled_outcome() { return ended_as(JobState::cancelled, "cancelled", "it was cancelled"); }
JobOutcome late_outcome() { return ended_as(JobState::failed, "deadline", "its deadline passed before it ended"); }
JobOutcome too_long_outcome() {
  return ended_as(JobState::failed, "max_time", "it ran for longer than this service lets one job run");
}

}  // namespace

Scheduler::Scheduler(JobQueue& queue, EventLog& log, Metrics& metrics, SchedulerSettings settings)
    : queue_(queue), log_(log), metrics_(metrics), settings_(std::move(settings)) {
  for (const std::string& device : settings_.devices)
    threads_.emplace_back([this, device](std::stop_token stop) { work(stop, device); });
  threads_.emplace_back([this](std::stop_token stop) { watch(stop); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (auto& [id, running] : running_) {
      if (running.why == EndReason::none) running.why = EndReason::shutdown;
      running.stop.request_stop();
    }
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  changed_.notify_all();
  threads_.clear();
}

void Scheduler::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++news_;
  }
  changed_.notify_all();
}

std::vector<JobQueue::Submitted> Scheduler::submit(const std::vector<JobRecord>& jobs) {
  std::vector<JobQueue::Submitted> all = queue_.submit(jobs);
  wake();
  for (const JobQueue::Submitted& one : all) {
    if (!one.full.empty()) continue;
    announce(one.job);
  }
  return all;
}

// Whether nobody waits for a job: as its requests are now.
bool Scheduler::is_quiet(std::int64_t id) const {
  try {
    const std::optional<JobRecord> job = queue_.find(id);
    return job && job->quiet;
  } catch (const std::exception&) {  // the queue cannot be read: the job goes on
    return false;
  }
}

std::optional<JobRecord> Scheduler::cancel(std::int64_t id) {
  const JobQueue::Ending ending = queue_.end(id, cancelled_outcome());
  follow_up(ending, EndReason::cancelled);
  return ending.job;
}

JobQueue::Ending Scheduler::withdraw(std::int64_t id, const std::string& ticket) {
  const JobQueue::Ending ending = queue_.withdraw(id, ticket, cancelled_outcome());
  follow_up(ending, EndReason::cancelled);
  if (ending.withdrawn && ending.job->requests > 0) {  // it goes on for others
    announce(*ending.job);
  }
  return ending;
}

// Follows up on jobs that the queue has ended, or marked as ending.
void Scheduler::follow_up(const JobQueue::Ending& ending, EndReason why) {
  if (!ending.job) return;
  if (ending.ended) {
    metrics_.count_job(ending.job->kind, ending.job->state);
    announce(*ending.job);
  } else if (ending.job->ending) {
    end_as(ending.job->id, why);
  }
}

void Scheduler::end_as(std::int64_t id, EndReason why) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  EndReason& known = found->second.why;
  if (known == EndReason::none || known == EndReason::disturbed) known = why;
  found->second.stop.request_stop();
}

void Scheduler::work(std::stop_token stop, const std::string& device) {
  JobQueue::Fits fits;
  if (settings_.fits) fits = [&](const JobRecord& job) { return !job.device.empty() || settings_.fits(job, device); };
  while (!stop.stop_requested()) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      seen = news_;
    }
    try {
      if (const std::optional<JobRecord> job = queue_.start_next(device, fits)) {
        run(*job, device, stop);
        continue;
      }
    } catch (const std::exception&) {  // the queue's disk is full, say: it is tried again
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
      continue;
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return news_ != seen; });
  }
}

// While it lives, the job counts as running on the device, however its run ends.
class Scheduler::Turn {
 public:
  Turn(Scheduler& scheduler, std::int64_t id, const std::string& device)
      : scheduler_(scheduler), id_(id), device_(device) {
    scheduler_.metrics_.begin_job(device_);
    const std::lock_guard lock(scheduler_.mutex_);
    Running& running = scheduler_.running_[id_];
    running.device = device;
    stop_ = running.stop.get_token();
    if (!scheduler_.closing_) return;
    running.why = EndReason::shutdown;
    running.stop.request_stop();
  }
  Turn(const Turn&) = delete;
  ~Turn() {
    ::malloc_trim(0);  // what a search took would stay with this thread's arena
    scheduler_.metrics_.end_job(device_);
    {
      const std::lock_guard lock(scheduler_.mutex_);
      scheduler_.running_.erase(id_);
    }
    scheduler_.wake();  // an equal job may have waited for its end
  }
  std::stop_token stop() const { return stop_; }

 private:
  Scheduler& scheduler_;
  const std::int64_t id_;
  const std::string device_;
  std::stop_token stop_;
};

void Scheduler::run(const JobRecord& job, const std::string& device, const std::stop_token& closing) {
  const Turn turn(*this, job.id, device);
  announce(job);
  stop_if_ended(job.id);
  settle(job, outcome_of(job, device, turn.stop()), closing);
}

// One that was ended since the queue has started it: end_as() did not find it then.
void Scheduler::stop_if_ended(std::int64_t id) {
  try {
    if (const auto job = queue_.find(id); job && job->ending) end_as(id, EndReason::cancelled);
  } catch (const std::exception&) {  // not known now; whoever ended it may do so again
  }
}

// The queue's disk may be full, or its file locked for long: the outcome is kept until it can be written. If the
// service closes first, the next one runs the job again, with the trials that the cache has.
void Scheduler::settle(const JobRecord& job, JobOutcome outcome, const std::stop_token& closing) {
  EndReason why = EndReason::none;
  {
    const std::lock_guard lock(mutex_);
    why = running_.at(job.id).why;
  }
  const std::string partial = outcome.result;
  if (why == EndReason::cancelled) outcome = cancelled_outcome();
  if (why == EndReason::deadline) outcome = late_outcome();
  if (why == EndReason::too_long) outcome = too_long_outcome();
  outcome.result = partial;
  for (bool is_said = false;; is_said = true) {
    try {
      return record_end(job, outcome, why);
    } catch (const std::exception& error) {
      if (!is_said)
        log_.warn("queue", std::string("its end cannot be written yet: ") + error.what(),
                  static_cast<std::uint64_t>(job.id));
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, closing, kRetry, [] { return false; });
    if (closing.stop_requested()) return;
  }
}

void Scheduler::record_end(const JobRecord& job, const JobOutcome& outcome, EndReason why) {
  if (why == EndReason::shutdown) return queue_.put_back(job.id);
  if (why == EndReason::disturbed) return put_off(job);
  const std::optional<JobRecord> ended = queue_.finish(job.id, outcome);
  if (!ended) return;
  metrics_.count_job(ended->kind, ended->state);
  announce(*ended);
  if (settings_.ended && !ended->result.empty()) settings_.ended(*ended);
}

void Scheduler::put_off(const JobRecord& job) {
  const std::int64_t until = static_cast<std::int64_t>(std::time(nullptr)) + settings_.quiet.put_off_s;
  if (const auto waiting = queue_.put_off(job.id, until)) announce(*waiting);
}

JobOutcome Scheduler::outcome_of(const JobRecord& job, const std::string& device, std::stop_token stop) {
  if (job.starts > kMostStarts)
    return ended_as(JobState::failed, "crashes", "the service ended again and again while it ran");
  try {
    JobRequest request =
        parse_job_request(job.kind, parse_json(job.request, "the stored request"), settings_.limits, settings_.devices);
    if (job.quiet) {
      if (const std::string why = shortage_for(request, device); !why.empty()) {
        log_.warn("memory", job.kind + " waits for memory: " + why, static_cast<std::uint64_t>(job.id));
        end_as(job.id, EndReason::disturbed);
        return {};
      }
      if (auto* const search = std::get_if<SearchRequest>(&request.what))
        search->settings.quiet_wait_s = settings_.quiet.wait_s;
    }
    const EventListener listener = [&](const Event& event) { on_event(device, event); };
    return run_job(request, device, settings_.runner,
                   {.events = {.job = static_cast<JobId>(job.id), .listener = listener}, .stop = stop});
  } catch (const BadInput& error) {  // of another version of the service, or of other limits
    JobOutcome outcome = ended_as(JobState::failed, "bad_input", error.what());
    outcome.exit_code = 2;
    return outcome;
  } catch (const std::exception& error) {  // out of memory, say: the job must end all the same
    return ended_as(JobState::failed, "internal", error.what());
  }
}

void Scheduler::on_event(const std::string& device, const Event& event) {
  metrics_.count_event(device, event);
  Document document = event_document(event);
  if (document.is_null()) return;
  document["job"] = event.job;
  const auto id = static_cast<std::int64_t>(event.job);
  const bool gives_way = std::holds_alternative<GpuContended>(event.what) && is_quiet(id);
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(id);
    if (found != running_.end()) advance(found->second, event);
    if (found != running_.end() && gives_way && found->second.why == EndReason::none) {
      found->second.why = EndReason::disturbed;  // its trials are stored: it goes on from there
      found->second.stop.request_stop();
    }
  }
  log_.append(document["type"].get_ref<const std::string&>(), event.job, document);
}

void Scheduler::advance(Running& running, const Event& event) {
  Document& progress = running.progress;
  std::visit(Overloaded{[&](const PhaseChanged& change) { progress["phase"] = phase_name(change.phase); },
                        [&](const DeviceChosen& chosen) {
                          progress["kernel"] = chosen.kernel;
                          progress["problem"] = chosen.problem;
                        },
                        [&](const SearchStarted& search) {
                          running.best_us = 0;
                          progress["trials"] = 0;
                          progress["budget"] = search.budget;
                          progress["best_us"] = nullptr;
                          progress["curve"] = Document::array();
                        },
                        [&](const TrialEnded& ended) {
                          progress["trials"] = ended.counts.total();
                          if (ended.best == nullptr) return;
                          const double best = ended.best->result.measurement.median_us;
                          Document& curve = progress["curve"];
                          if (best != running.best_us && curve.size() < kMostCurve)
                            curve.push_back({ended.counts.total(), number_or_null(best)});
                          running.best_us = best;
                          progress["best_us"] = number_or_null(best);
                        },
                        [&](const RangeAdvanced& advanced) {
                          progress["stage"] = advanced.stage;
                          progress["cells"] = advanced.done;
                          progress["planned"] = advanced.planned;
                        },
                        [](const auto&) {}},
             event.what);
}

void Scheduler::watch(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, kWatch, [] { return false; });
    }
    try {
      stop_late_jobs();
    } catch (const std::exception&) {  // of the queue's file; tried again
    }
  }
}

void Scheduler::stop_late_jobs() {
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  for (const JobQueue::Ending& ending : queue_.end_overdue(now, late_outcome())) follow_up(ending, EndReason::deadline);
  const auto longest = std::chrono::duration<double>(settings_.limits.seconds + settings_.limits.grace_s);
  std::vector<std::int64_t> too_long;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, running] : running_) {
      if (running.why == EndReason::none && Clock::now() - running.started > longest) too_long.push_back(id);
    }
  }
  for (const std::int64_t id : too_long) follow_up(queue_.end(id, too_long_outcome()), EndReason::too_long);
  if (queue_.has_put_off_due(now)) wake();
}

void Scheduler::announce(const JobRecord& job) {
  Document document = job_document(job, nullptr, false);
  document["job"] = job.id;
  log_.append("job", static_cast<std::uint64_t>(job.id), document);
}

Document Scheduler::progress(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(id);
  return found == running_.end() ? Document(nullptr) : found->second.progress;
}

std::map<std::string, std::int64_t> Scheduler::running() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::int64_t> jobs;
  for (const std::string& device : settings_.devices) jobs[device] = 0;
  for (const auto& [id, running] : running_) jobs[running.device] = id;
  return jobs;
}

}  // namespace moetune
