#include "serve/run/metrics.h"

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

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + label_text(value) + "\"";
}

std::string outcome_label(Outcome outcome) { return label("outcome", std::string(outcome_name(outcome))); }

struct Metric {
  const char *name, *type, *help;
};

// In the order of the text.
constexpr Metric kMetrics[] = {
    {"moetune_info", "gauge", "The version of moetune."},
    {"moetune_jobs", "gauge", "Jobs that the queue holds, by state."},
    {"moetune_queue_age_seconds", "gauge", "How long the oldest queued job has waited."},
    {"moetune_http_connections", "gauge", "Open connections."},
    {"moetune_http_connections_closed_total", "counter", "Connections that were too many."},
    {"moetune_gpu_busy", "gauge", "1 while a job runs on the device."},
    {"moetune_jobs_ended_total", "counter", "Jobs that ended since the start, by kind and state."},
    {"moetune_trials_total", "counter", "Trials that were run, by outcome."},
    {"moetune_trials_resumed_total", "counter", "Trials that were taken from the cache."},
    {"moetune_compile_seconds_total", "counter", "Seconds of compiling, over all compiler threads."},
    {"moetune_gpu_busy_seconds_total", "counter", "Seconds in which a job had the device."},
    {"moetune_gpu_measuring_seconds_total", "counter", "Seconds of searches that prepared, validated and measured."},
    {"moetune_misses_total", "counter", "Misses that were posted, weighted by their counts."},
    {"moetune_processes_killed_total", "counter", "Workers and compilers that held too much memory."},
    {"moetune_http_responses_total", "counter", "Responses, by status."},
};

}  // namespace

// Adds every counter at 0, so that none is missing before its first event.
Metrics::Metrics() {
  for (const Outcome outcome : kOutcomes) add("moetune_trials_total", outcome_label(outcome), 0);
  for (const char* metric : {"moetune_trials_resumed_total", "moetune_compile_seconds_total", "moetune_misses_total",
                             "moetune_processes_killed_total"})
    add(metric, "", 0);
}

void Metrics::add(const char* metric, const std::string& labels, double value) { values_[metric][labels] += value; }

void Metrics::count(const char* metric, const std::string& labels, double value) {
  const std::lock_guard lock(mutex_);
  add(metric, labels, value);
}

void Metrics::begin_job(const std::string& device) {
  const std::lock_guard lock(mutex_);
  Used& used = used_[device];
  used.is_busy = true;
  used.since = Clock::now();
  used.measured_s = used.compiled_s = 0;
  add("moetune_gpu_measuring_seconds_total", label("device", device), 0);
}

void Metrics::end_job(const std::string& device) {
  const std::lock_guard lock(mutex_);
  Used& used = used_[device];
  used.busy_s += std::chrono::duration<double>(Clock::now() - used.since).count();
  used.is_busy = false;
}

// The searches of a job may have one compiler, or one each.
void Metrics::add_compiling(Used& used, double compiling_s) {
  const bool is_same = compiling_s >= used.compiled_s;
  add("moetune_compile_seconds_total", "", compiling_s - (is_same ? used.compiled_s : 0));
  used.compiled_s = compiling_s;
}

void Metrics::add_trial(const std::string& device, const TrialEnded& ended) {
  if (ended.trial.resumed) return add("moetune_trials_resumed_total", "", 1);
  const TrialResult& result = ended.trial.result;
  Used& used = used_[device];
  add("moetune_trials_total", outcome_label(result.outcome), 1);
  add("moetune_gpu_measuring_seconds_total", label("device", device), result.validate_s + result.measure_s);
  used.measured_s += result.validate_s + result.measure_s;
  if (ended.compiling_s > 0) add_compiling(used, ended.compiling_s);
}

void Metrics::count_event(const std::string& device, const Event& event) {
  const std::lock_guard lock(mutex_);
  if (const auto* const ended = std::get_if<TrialEnded>(&event.what)) return add_trial(device, *ended);
  const auto* const ended = std::get_if<SearchEnded>(&event.what);
  if (ended == nullptr) return;
  Used& used = used_[device];
  const TimeSpent& time = ended->result.time;
  const double all = time.preparing + time.validating + time.measuring + time.finishing;
  add("moetune_gpu_measuring_seconds_total", label("device", device), std::max(0.0, all - used.measured_s));
  used.measured_s = 0;
  if (time.compiling > 0) add_compiling(used, time.compiling);
}

void Metrics::count_job(const std::string& kind, JobState state) {
  const std::string name(job_state_name(state));
  count("moetune_jobs_ended_total", label("kind", kind) + "," + label("state", name), 1);
}
void Metrics::count_response(int status) {
  count("moetune_http_responses_total", label("status", std::to_string(status)), 1);
}
void Metrics::count_misses(std::uint64_t misses) { count("moetune_misses_total", "", static_cast<double>(misses)); }
void Metrics::count_ended_process() { count("moetune_processes_killed_total", "", 1); }

std::string Metrics::text(const MetricGauges& gauges) const {
  Values all;
  {
    const std::lock_guard lock(mutex_);
    all = values_;
    for (const auto& [device, used] : used_) {
      const double now = used.is_busy ? std::chrono::duration<double>(Clock::now() - used.since).count() : 0;
      all["moetune_gpu_busy_seconds_total"][label("device", device)] = used.busy_s + now;
    }
  }
  all["moetune_info"][label("version", std::string(version()))] = 1;
  for (const JobState state :
       {JobState::queued, JobState::running, JobState::done, JobState::failed, JobState::cancelled}) {
    const auto found = gauges.jobs.find(state);
    all["moetune_jobs"][label("state", std::string(job_state_name(state)))] =
        found == gauges.jobs.end() ? 0 : static_cast<double>(found->second);
  }
  all["moetune_queue_age_seconds"][""] = gauges.queue_age_s;
  all["moetune_http_connections"][""] = static_cast<double>(gauges.connections);
  all["moetune_http_connections_closed_total"][""] = static_cast<double>(gauges.closed_connections);
  for (const auto& [device, busy] : gauges.busy) all["moetune_gpu_busy"][label("device", device)] = busy ? 1 : 0;
  std::string text;
  for (const Metric& metric : kMetrics) {
    const std::string name = metric.name;
    text += "# HELP " + name + " " + metric.help + "\n# TYPE " + name + " " + metric.type + "\n";
    for (const auto& [labels, value] : all[name])
      text += name + (labels.empty() ? "" : "{" + labels + "}") + format(" %.17g\n", value);
  }
  return text;
}

}  // namespace moetune
