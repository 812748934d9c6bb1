// read_search_document(), read_range_document(): a document back into what is printed of it.
#include "base/error.h"
#include "base/json.h"
#include "serve/job_client.h"

namespace moetune {
namespace {

double figure(const Document& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
std::size_t counted(const Document& json, const char* name) {
  return static_cast<std::size_t>(std::max(0.0, figure(json, name)));
}
bool is_set(const Document& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}
std::string worded(const Document& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Config named_config(const std::string& text) {
  Config config;
  for (const auto& [name, value] : split_assignment(text, "the configuration"))
    config.set(name, Value::named(value, 0));
  return config;
}

Trial read_trial(const Document& json) {
  Trial trial{.config = named_config(worded(json, "config")), .result = {}};
  trial.result.outcome = outcome_from_name(worded(json, "outcome")).value_or(Outcome::ok);
  trial.result.message = worded(json, "message");
  trial.result.contended = is_set(json, "contended");
  trial.result.measurement.median_us = figure(json, "time_us");
  trial.result.measurement.sm_clock_mhz = static_cast<int>(figure(json, "sm_clock_mhz"));
  trial.result.measurement.throttled = is_set(json, "throttled");
  trial.result.measurement.settled = !is_set(json, "unsettled");
  const auto interval = json.find("interval_us");
  if (interval != json.end() && interval->is_array() && interval->size() == 2 && (*interval)[0].is_number() &&
      (*interval)[1].is_number()) {
    trial.result.measurement.low_us = (*interval)[0];
    trial.result.measurement.high_us = (*interval)[1];
  }
  return trial;
}

// Text that outlives the document.
std::string_view known_bound(const std::string& bound) {
  for (const CeilingFigure& ceiling : kCeilingFigures) {
    if (bound == ceiling.title) return ceiling.title;
  }
  return "a ceiling";
}

void read_speed(const Document& best, Subject& subject) {
  const double time = figure(best, "time_us");
  const bool flops = figure(best, "tflop_s") > 0;
  subject.work = {.amount = figure(best, flops ? "tflop_s" : "tb_s") * time * 1e6,
                  .unit = flops ? Unit::tflop_s : Unit::tb_s};
  if (figure(best, "roofline") > 0)
    subject.floor = Floor{figure(best, "roofline") * time, known_bound(worded(best, "bound")), subject.work};
  if (figure(best, "regret") > 0) subject.optimum_us = time / figure(best, "regret");
}

TimeSpent read_time(const Document& time, double wall) {
  return {.wall = wall,
          .preparing = figure(time, "preparing_s"),
          .waiting = figure(time, "waiting_s"),
          .validating = figure(time, "validating_s"),
          .measuring = figure(time, "measuring_s"),
          .disturbed = figure(time, "disturbed_s"),
          .finishing = figure(time, "finishing_s"),
          .compiling = figure(time, "compiling_s")};
}

std::vector<TimingResult> read_timings(const Document& document) {
  std::vector<TimingResult> timings;
  const auto found = document.find("timings");
  if (found == document.end() || !found->is_object()) return timings;
  for (const Timing timing : kTimings) {
    const auto one = found->find(std::string(timing_name(timing)));
    if (one == found->end()) continue;
    timings.push_back({.timing = timing,
                       .winner_us = figure(*one, "time_us"),
                       .default_us = figure(*one, "default_us"),
                       .fastest = worded(*one, "fastest"),
                       .fastest_us = figure(*one, "fastest_us")});
  }
  return timings;
}

std::vector<std::string> read_texts(const Document& list) {
  std::vector<std::string> texts;
  for (const Document& text : list) texts.push_back(text.get<std::string>());
  return texts;
}

RangeTable read_table(const Document& document) {
  RangeTable table{.bound = figure(document, "bound"),
                   .kept = is_set(document, "kept"),
                   .contended = is_set(document, "contended")};
  for (const Document& cell : document.at("cells")) {
    const double time = figure(cell, "time_us");
    table.cells.push_back({.problem = worded(cell, "problem"),
                           .config = worded(cell, "config"),
                           .time_us = time,
                           .default_us = figure(cell, "default_us"),
                           .best_us = time / (1 + std::max(0.0, figure(cell, "regret")))});
  }
  const Document& seen = document.at("certificate");
  table.certificate = {.shapes = counted(seen, "shapes"),
                       .median = figure(seen, "median"),
                       .p95 = figure(seen, "p95"),
                       .worst = figure(seen, "worst"),
                       .worst_to_default = figure(seen, "worst_to_default"),
                       .failed = counted(seen, "failed")};
  return table;
}

TrialCounts read_counts(const Document& trials) {
  TrialCounts counts;
  for (const Outcome outcome : kOutcomes)
    counts[outcome] = counted(trials, std::string(outcome_name(outcome)).c_str());
  counts.resumed = counted(trials, "resumed");
  counts.unmeasured = counted(trials, "unmeasured");
  return counts;
}

}  // namespace

SearchResult read_search_document(const Document& document) try {
  SearchResult result;
  Subject& subject = result.subject;
  subject.kernel = worded(document, "kernel");
  subject.problem = worded(document, "problem");
  subject.device.key.name = worded(document.at("device"), "name");
  subject.device.recorded = is_set(document.at("device"), "recorded");
  subject.cache = worded(document, "cache");
  // A service searches for times alone (ReplayChoice), so that the objective has no figures.
  if (const auto objective = document.find("objective");
      objective != document.end() && objective->is_object())
    subject.objective = Objective{.name = worded(*objective, "name"), .unit = {}, .figures = {}};
  result.legal = counted(document, "legal");
  result.histories = counted(document, "histories");
  result.compiled = is_set(document, "compiled");
  TuneResult& tune = result.tune;
  tune.interrupted = is_set(document, "interrupted");
  tune.provisional = is_set(document, "provisional");
  tune.converged = is_set(document, "converged");
  tune.exhausted = is_set(document, "exhausted");
  tune.out_of_time = is_set(document, "out_of_time");
  tune.counts = read_counts(document.at("trials"));
  tune.time = read_time(document.at("time"), figure(document, "wall_s"));
  if (document.at("best").is_object()) {
    tune.best = read_trial(document["best"]);
    read_speed(document["best"], subject);
  }
  if (document.at("default").is_object()) tune.baseline = read_trial(document["default"]);
  for (const Document& time : document.at("tied_us")) tune.tied.push_back(time.get<double>());
  tune.timings = read_timings(document);
  if (const Document& confidence = document.at("confidence"); confidence.is_object()) {
    tune.confidence.known = true;
    tune.confidence.within_5_percent = figure(confidence, "within_5_percent");
    tune.confidence.expected_gain = figure(confidence, "expected_gain");
    tune.confidence.at_floor = is_set(confidence, "at_floor");
  }
  if (const Document& contention = document.at("contention"); contention.is_object()) {
    tune.contention.contended = counted(contention, "contended_trials");
    if (contention.contains("unchecked_trials"))  // of a service of before
      tune.contention.unchecked = counted(contention, "unchecked_trials");
  }
  return result;
} catch (const Document::exception& error) {
  throw BrokenEnvironment("the service's result cannot be read: " + json_error_text(error));
}

RangeResult read_range_document(const Document& document) try {
  RangeResult result;
  result.subject.kernel = worded(document, "kernel");
  result.subject.device.key.name = worded(document.at("device"), "name");
  result.subject.device.recorded = is_set(document.at("device"), "recorded");
  result.subject.cache = worded(document, "cache");
  result.family = worded(document, "family");
  result.ranges = worded(document, "over");
  result.timing = timing_from_name(worded(document, "timing")).value_or(Timing::overlapped);
  result.table = read_table(document);
  result.cubins = read_texts(document.at("cubins"));
  result.left_out = read_texts(document.at("left_out"));
  result.planned = counted(document, "planned");
  result.expected = counted(document, "expected");
  result.stored = is_set(document, "stored");
  result.interrupted = is_set(document, "interrupted");
  result.out_of_time = is_set(document, "out_of_time");
  result.wall_s = figure(document, "wall_s");
  return result;
} catch (const Document::exception& error) {
  throw BrokenEnvironment("the service's result cannot be read: " + json_error_text(error));
}

}  // namespace moetune
