#include "serve/metrics.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"
#include "base/version.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

std::string label_text(const std::string& value) {
  std::string text;
  for (const char c : escape_controls(value, LineEnds::escaped)) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

class MetricText {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void value(const std::string& labels, double value) {
    text_ += name_ + (labels.empty() ? "" : "{" + labels + "}") + format(" %.17g\n", value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + label_text(value) + "\"";
}

void add_gauges(MetricText& text, const MetricGauges& gauges) {
  text.family("moetune_jobs", "gauge", "Jobs that the queue holds, by state.");
  for (const JobState state :
       {JobState::queued, JobState::running, JobState::done, JobState::failed, JobState::cancelled}) {
    const auto found = gauges.jobs.find(state);
    text.value(label("state", std::string(job_state_name(state))),
               found == gauges.jobs.end() ? 0 : static_cast<double>(found->second));
  }
  text.family("moetune_queue_age_seconds", "gauge", "How long the oldest queued job has waited.");
  text.value("", gauges.queue_age_s);
  text.family("moetune_http_connections", "gauge", "Open connections.");
  text.value("", static_cast<double>(gauges.connections));
  text.family("moetune_http_connections_closed_total", "counter", "Connections that were too many.");
  text.value("", static_cast<double>(gauges.closed_connections));
  text.family("moetune_gpu_busy", "gauge", "1 while a job runs on the device.");
  for (const auto& [device, busy] : gauges.busy) text.value(label("device", device), busy ? 1 : 0);
}

}  // namespace

void Metrics::begin_job(const std::string& device) {
  const std::lock_guard lock(mutex_);
  Used& used = used_[device];
  used.is_busy = true;
  used.since = Clock::now();
  used.measured_s = used.compiled_s = 0;
}

void Metrics::end_job(const std::string& device) {
  const std::lock_guard lock(mutex_);
  Used& used = used_[device];
  used.busy_s += std::chrono::duration<double>(Clock::now() - used.since).count();
  used.is_busy = false;
}

// The searches of a job may have one compiler, or one each.
void Metrics::count_compiling(Used& used, double compiling_s) {
  compile_seconds_ += compiling_s >= used.compiled_s ? compiling_s - used.compiled_s : compiling_s;
  used.compiled_s = compiling_s;
}

void Metrics::count_trial(Used& used, const TrialEnded& ended) {
  if (ended.trial.resumed) {
    ++resumed_;
    return;
  }
  const TrialResult& result = ended.trial.result;
  ++outcomes_[static_cast<std::size_t>(result.outcome)];
  used.measuring_s += result.validate_s + result.measure_s;
  used.measured_s += result.validate_s + result.measure_s;
  if (ended.compiling_s > 0) count_compiling(used, ended.compiling_s);
}

void Metrics::count_event(const std::string& device, const Event& event) {
  const std::lock_guard lock(mutex_);
  Used& used = used_[device];
  std::visit(Overloaded{[&](const TrialEnded& ended) { count_trial(used, ended); },
                        [&](const SearchEnded& ended) {
                          const TimeSpent& time = ended.result.time;
                          const double all =
                              time.preparing + time.validating + time.measuring + time.finishing;
                          used.measuring_s += std::max(0.0, all - used.measured_s);
                          used.measured_s = 0;
                          if (time.compiling > 0) count_compiling(used, time.compiling);
                        },
                        [](const auto&) {}},
             event.what);
}

void Metrics::count_job(const std::string& kind, JobState state) {
  const std::lock_guard lock(mutex_);
  ++ended_jobs_[{kind, state}];
}

void Metrics::count_response(int status) {
  const std::lock_guard lock(mutex_);
  ++responses_[status];
}

void Metrics::count_misses(std::uint64_t misses) {
  const std::lock_guard lock(mutex_);
  misses_ += misses;
}

void Metrics::count_ended_process() {
  const std::lock_guard lock(mutex_);
  ++ended_processes_;
}

std::string Metrics::text(const MetricGauges& gauges) const {
  MetricText text;
  text.family("moetune_info", "gauge", "The version of moetune.");
  text.value(label("version", std::string(version())), 1);
  add_gauges(text, gauges);
  const std::lock_guard lock(mutex_);
  text.family("moetune_jobs_ended_total", "counter", "Jobs that ended since the start, by kind and state.");
  for (const auto& [what, count] : ended_jobs_)
    text.value(label("kind", what.first) + "," + label("state", std::string(job_state_name(what.second))),
               static_cast<double>(count));
  text.family("moetune_trials_total", "counter", "Trials that were run, by outcome.");
  for (const Outcome outcome : kOutcomes)
    text.value(label("outcome", std::string(outcome_name(outcome))),
               static_cast<double>(outcomes_[static_cast<std::size_t>(outcome)]));
  text.family("moetune_trials_resumed_total", "counter", "Trials that were taken from the cache.");
  text.value("", static_cast<double>(resumed_));
  text.family("moetune_compile_seconds_total", "counter", "Seconds of compiling, over all compiler threads.");
  text.value("", compile_seconds_);
  text.family("moetune_gpu_busy_seconds_total", "counter", "Seconds in which a job had the device.");
  for (const auto& [device, used] : used_) {
    const double now = used.is_busy ? std::chrono::duration<double>(Clock::now() - used.since).count() : 0;
    text.value(label("device", device), used.busy_s + now);
  }
  text.family("moetune_gpu_measuring_seconds_total", "counter",
              "Seconds of searches that prepared, validated and measured.");
  for (const auto& [device, used] : used_) text.value(label("device", device), used.measuring_s);
  text.family("moetune_misses_total", "counter", "Misses that were posted, weighted by their counts.");
  text.value("", static_cast<double>(misses_));
  text.family("moetune_processes_killed_total", "counter",
              "Workers and compilers that held too much memory.");
  text.value("", static_cast<double>(ended_processes_));
  text.family("moetune_http_responses_total", "counter", "Responses, by status.");
  for (const auto& [status, count] : responses_)
    text.value(label("status", std::to_string(status)), static_cast<double>(count));
  return text.text();
}

}  // namespace moetune
