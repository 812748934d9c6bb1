#include "serve/scheduler.h"

#include <malloc.h>

#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/json.h"
#include "base/time_stamp.h"
#include "serve/event_json.h"
#include "serve/served_devices.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

constexpr std::chrono::milliseconds kWatch{200};
constexpr std::int64_t kMostStarts = 5;  // then the job is what kills the service
constexpr std::size_t kMostCurve = 512;
constexpr int kStoppedExit = 130;

Document date_or_null(std::int64_t seconds) {
  return seconds > 0 ? Document(utc_text(UtcSeconds(std::chrono::seconds(seconds)))) : Document(nullptr);
}

// Stored by this service, so that it is sound; null for "".
Document stored_json(const std::string& text) {
  if (text.empty()) return nullptr;
  const nlohmann::json json = parse_json_or_discard(text);
  return json.is_discarded() ? Document(nullptr) : Document(json);
}

JobOutcome ended_as(JobState state, const char* code, const char* message) {
  return {.state = state, .result = {}, .error = job_error(code, message), .exit_code = kStoppedExit};
}

JobOutcome cancelled_outcome() { return ended_as(JobState::cancelled, "cancelled", "it was cancelled"); }
JobOutcome late_outcome() {
  return ended_as(JobState::failed, "deadline", "its deadline passed before it ended");
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

JobQueue::Submitted Scheduler::submit(const JobRecord& job) {
  JobQueue::Submitted submitted = queue_.submit(job);
  {
    const std::lock_guard lock(mutex_);
    ++news_;
    const auto running = running_.find(submitted.job.id);
    if (running != running_.end()) {
      running->second.deadline = submitted.job.deadline;
      running->second.quiet = submitted.job.quiet;
    }
  }
  changed_.notify_all();
  announce(submitted.job);
  return submitted;
}

std::optional<JobRecord> Scheduler::cancel(std::int64_t id) {
  std::optional<JobRecord> job = queue_.find(id);
  if (!job || !is_open(job->state)) return job;
  if (job->state == JobState::queued) {
    job = queue_.cancel_queued(id, cancelled_outcome());
    if (job && job->state == JobState::cancelled) {
      metrics_.count_job(job->kind, job->state);
      announce(*job);
    }
  }
  if (job && job->state == JobState::running) end_as(id, EndReason::cancelled);
  return job;
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
  while (!stop.stop_requested()) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock(mutex_);
      seen = news_;
    }
    try {
      if (const std::optional<JobRecord> job = queue_.start_next(device)) {
        run(*job, device);
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

void Scheduler::run(const JobRecord& job, const std::string& device) {
  std::stop_source stop;
  {
    const std::lock_guard lock(mutex_);
    Running& running = running_[job.id];
    running.stop = stop;
    running.deadline = job.deadline;
    running.device = device;
    running.quiet = job.quiet;
    if (closing_) {
      running.why = EndReason::shutdown;
      stop.request_stop();
    }
  }
  announce(job);
  JobOutcome outcome = outcome_of(job, device, stop.get_token());
  EndReason why = EndReason::none;
  {
    const std::lock_guard lock(mutex_);
    why = running_[job.id].why;
  }
  if (why == EndReason::shutdown) {
    queue_.put_back(job.id);
  } else if (why == EndReason::disturbed) {
    put_off(job);
  } else {
    if (why == EndReason::cancelled || why == EndReason::deadline) {
      const std::string partial = std::move(outcome.result);
      outcome = why == EndReason::cancelled ? cancelled_outcome() : late_outcome();
      outcome.result = partial;
    }
    if (const auto ended = queue_.finish(job.id, outcome)) {
      metrics_.count_job(ended->kind, ended->state);
      if (settings_.ended && !ended->result.empty()) settings_.ended(*ended);
      announce(*ended);
    }
  }
  ::malloc_trim(0);  // what a search took would stay with this thread's arena
  const std::lock_guard lock(mutex_);
  running_.erase(job.id);
}

void Scheduler::put_off(const JobRecord& job) {
  const std::int64_t until = static_cast<std::int64_t>(std::time(nullptr)) + settings_.quiet.put_off_s;
  if (const auto waiting = queue_.put_off(job.id, until)) announce(*waiting);
}

JobOutcome Scheduler::outcome_of(const JobRecord& job, const std::string& device, std::stop_token stop) {
  if (job.starts > kMostStarts)
    return ended_as(JobState::failed, "crashes", "the service ended again and again while it ran");
  try {
    JobRequest request = parse_job_request(job.kind, parse_json(job.request, "the stored request"),
                                           settings_.limits, settings_.devices);
    if (job.quiet) {
      if (const std::string why = shortage_for(request, device); !why.empty()) {
        warn(job.id, job.kind + " waits for memory: " + why);
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
  }
}

void Scheduler::on_event(const std::string& device, const Event& event) {
  metrics_.count_event(device, event);
  Document document = event_document(event);
  if (document.is_null()) return;
  document["job"] = event.job;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(static_cast<std::int64_t>(event.job));
    if (found != running_.end()) advance(found->second, event);
    if (found != running_.end() && found->second.quiet && std::holds_alternative<GpuContended>(event.what) &&
        found->second.why == EndReason::none) {
      found->second.why = EndReason::disturbed;  // its trials are stored: it goes on from there
      found->second.stop.request_stop();
    }
  }
  log_.append(document["type"].get_ref<const std::string&>(), event.job,
              document.dump(-1, ' ', false, Document::error_handler_t::replace));
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
  for (const std::int64_t id : queue_.overdue(now)) {
    const auto job = queue_.cancel_queued(id, late_outcome());
    if (!job || job->state != JobState::failed) continue;
    metrics_.count_job(job->kind, job->state);
    announce(*job);
  }
  const bool is_due = queue_.has_put_off_due(now);
  std::vector<std::int64_t> late;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, running] : running_) {
      if (running.deadline > 0 && running.deadline <= now) late.push_back(id);
    }
    news_ += is_due ? 1 : 0;
  }
  if (is_due) changed_.notify_all();
  for (const std::int64_t id : late) end_as(id, EndReason::deadline);
}

void Scheduler::announce(const JobRecord& job) {
  Document document = job_document(job, nullptr, false);
  document["job"] = job.id;
  log_.append("job", static_cast<std::uint64_t>(job.id),
              document.dump(-1, ' ', false, Document::error_handler_t::replace));
}

void Scheduler::warn(std::int64_t job, const std::string& text) {
  const Document document = {{"type", "warning"}, {"warning", "memory"}, {"text", text}, {"job", job}};
  log_.append("warning", static_cast<std::uint64_t>(job), document.dump());
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

Document job_document(const JobRecord& job, const Document& progress, bool whole) {
  Document document = {{"id", job.id},
                       {"kind", job.kind},
                       {"state", job_state_name(job.state)},
                       {"priority", job.priority},
                       {"weight", job.weight},
                       {"requests", job.requests},
                       {"device", job.device.empty() ? Document(nullptr) : Document(job.device)},
                       {"not_before", date_or_null(job.not_before)},
                       {"deadline", date_or_null(job.deadline)},
                       {"created", date_or_null(job.created)},
                       {"started", date_or_null(job.started)},
                       {"ended", date_or_null(job.ended)},
                       {"progress", progress},
                       {"error", stored_json(job.error)},
                       {"exit_code", job.exit_code ? Document(*job.exit_code) : Document(nullptr)}};
  if (whole) {
    document["request"] = stored_json(job.request);
    document["result"] = stored_json(job.result);
    return document;
  }
  // What a list shows of the request.
  const nlohmann::json request = parse_json_or_discard(job.request);
  for (const char* name : {"kernel", "problem", "over"}) {
    const bool has = request.is_object() && request.contains(name);
    document[name] = has ? Document(request[name]) : Document(nullptr);
  }
  return document;
}

}  // namespace moetune
