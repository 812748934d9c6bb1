#include "serve/run/event_json.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "tuner/tune.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr std::array kSentPhases = {Phase::preparing, Phase::searching,   Phase::duel,        Phase::verifying,
                                    Phase::storing,   Phase::calibrating, Phase::benchmarking};
constexpr std::array kSentWarnings = {
    WarningKind::cache,        WarningKind::nothing_compiled,  WarningKind::other_sources,
    WarningKind::no_ceilings,  WarningKind::contended_winner,  WarningKind::history_left_out,
    WarningKind::other_timing, WarningKind::recorded_timing,   WarningKind::unusual_time,
    WarningKind::waiting,      WarningKind::provisional_winner};

Document trial_fields(const Trial& trial) {
  Document fields = trial_document(trial);
  fields["id"] = trial.id;
  return fields;
}

Document document_of(const DeviceChosen& chosen) {
  return {{"type", "device"},
          {"kernel", chosen.kernel},
          {"problem", chosen.problem},
          {"device", device_document(chosen.device)},
          {"recorded_at", chosen.recorded_at},
          {"why_no_gpu", chosen.why_no_gpu}};
}
Document document_of(const PhaseChanged& change) { return {{"type", "phase"}, {"phase", phase_name(change.phase)}}; }
Document document_of(const SearchStarted& search) {
  return {{"type", "search"},           {"legal", search.legal},
          {"budget", search.budget},    {"time_budget_s", search.time_budget_s},
          {"work", search.work.amount}, {"work_unit", search.work.unit == Unit::tflop_s ? "tflop_s" : "tb_s"}};
}
Document document_of(const TrialBegun&) { return nullptr; }
Document document_of(const TrialEnded& ended) {
  return {{"type", "trial"},
          {"trial", trial_fields(ended.trial)},
          {"counts", counts_document(ended.counts)},
          {"best_us", ended.best != nullptr ? number_or_null(ended.best->result.measurement.median_us) : nullptr},
          {"best", ended.best != nullptr ? Document(ended.best->config.text()) : Document(nullptr)},
          {"again", ended.again}};
}
Document document_of(const GpuDisturbed& disturbed) {
  const CanaryReading& seen = disturbed.reading;
  return {{"type", "disturbed"},
          {"elapsed_us", seen.elapsed_us},
          {"lost_us", seen.lost_us},
          {"slow_share", seen.slow_share},
          {"other_processes", seen.other_processes.value_or(0)}};
}
Document document_of(const GpuQuiet& quiet) { return {{"type", "quiet"}, {"waited_s", quiet.waited_s}}; }
Document document_of(const GpuContended& contended) {
  return {{"type", "contended"}, {"waited_s", contended.waited_s}};
}
Document document_of(const SearchEnded&) { return {{"type", "search_ended"}}; }
Document document_of(const RangeAdvanced& advanced) {
  return {{"type", "range"},
          {"stage", advanced.stage},
          {"done", advanced.done},
          {"planned", advanced.planned},
          {"cubins", advanced.cubins},
          {"worst_regret", advanced.worst_regret},
          {"seconds_left", advanced.seconds_left}};
}
Document document_of(const CeilingMeasured& measured) {
  return {{"type", "ceiling"},
          {"figure", measured.figure.name},
          {"value", measured.value},
          {"device", device_document(measured.device)}};
}
Document document_of(const Warning& warning) {
  return {{"type", "warning"}, {"warning", warning_name(warning.kind)}, {"text", warning.text}};
}
Document document_of(const Finished& finished) { return {{"type", "finished"}, {"interrupted", finished.interrupted}}; }

DeviceInfo device_of(const Json& json) {
  DeviceInfo device;
  device.id = text_field(json, "id");
  device.key.name = text_field(json, "name");
  device.architecture = text_field(json, "architecture");
  device.recorded = flag_field(json, "recorded");
  return device;
}

// Reads a configuration from its text alone: the values stay names.
Config config_of(const std::string& text) {
  Config config;
  for (const auto& [name, value] : split_assignment(text, "the configuration"))
    config.set(name, Value::named(value, 0));
  return config;
}

void play_trial(const Json& json, const Events& events) {
  const Json& fields = json.at("trial");
  Trial trial{.id = static_cast<ConfigId>(count_field(fields, "id")),
              .config = config_of(text_field(fields, "config")),
              .result = {},
              .resumed = flag_field(fields, "resumed")};
  trial.result.outcome = outcome_from_name(text_field(fields, "outcome")).value_or(Outcome::ok);
  trial.result.message = text_field(fields, "message");
  trial.result.contended = flag_field(fields, "contended");
  trial.result.measurement.median_us = figure_field(fields, "time_us");
  TrialCounts counts;
  for (const Outcome outcome : kOutcomes)
    counts[outcome] = count_field(json.at("counts"), std::string(outcome_name(outcome)).c_str());
  counts.resumed = count_field(json.at("counts"), "resumed");
  counts.unmeasured = count_field(json.at("counts"), "unmeasured");
  Trial best;
  best.result.measurement.median_us = figure_field(json, "best_us");
  const bool has_best = best.result.measurement.median_us > 0;
  events.emit(TrialEnded{trial, counts, has_best ? &best : nullptr, flag_field(json, "again")});
}

void play_search(const Json& json, const Events& events) {
  const Unit unit = text_field(json, "work_unit") == "tflop_s" ? Unit::tflop_s : Unit::tb_s;
  events.emit(SearchStarted{count_field(json, "legal"), count_field(json, "budget"),
                            figure_field(json, "time_budget_s"),
                            Work{.amount = figure_field(json, "work"), .unit = unit}});
}

void play_device(const Json& json, const Events& events) {
  const std::string kernel = text_field(json, "kernel"), problem = text_field(json, "problem");
  const std::string recorded_at = text_field(json, "recorded_at"), why_no_gpu = text_field(json, "why_no_gpu");
  const DeviceInfo device = device_of(json.at("device"));
  events.emit(DeviceChosen{kernel, problem, device, recorded_at, why_no_gpu});
}

void play_range(const Json& json, const Events& events) {
  const std::string stage = text_field(json, "stage");
  events.emit(RangeAdvanced{stage, count_field(json, "done"), count_field(json, "planned"), count_field(json, "cubins"),
                            figure_field(json, "worst_regret"), figure_field(json, "seconds_left")});
}

void play_phase(const Json& json, const Events& events) {
  const std::string name = text_field(json, "phase");
  for (const Phase phase : kSentPhases) {
    if (phase_name(phase) == name) events.emit(PhaseChanged{phase});
  }
}

void play_warning(const Json& json, const Events& events) {
  const std::string name = text_field(json, "warning"), text = text_field(json, "text");
  for (const WarningKind kind : kSentWarnings) {
    if (warning_name(kind) == name) events.emit(Warning{kind, text});
  }
}

void play_ceiling(const Json& json, const Events& events) {
  const DeviceInfo device = device_of(json.at("device"));
  for (const CeilingFigure& figure : kCeilingFigures) {
    if (text_field(json, "figure") == figure.name)
      events.emit(CeilingMeasured{device, figure, figure_field(json, "value")});
  }
}

void play_disturbed(const Json& json, const Events& events) {
  CanaryReading reading;
  reading.elapsed_us = figure_field(json, "elapsed_us");
  reading.lost_us = figure_field(json, "lost_us");
  reading.slow_share = figure_field(json, "slow_share");
  reading.other_processes = static_cast<int>(std::min<std::size_t>(count_field(json, "other_processes"), 1000));
  events.emit(GpuDisturbed{reading});
}

struct Player {
  const char* type;
  void (*play)(const Json&, const Events&);
};
constexpr Player kPlayers[] = {
    {"device", play_device},
    {"phase", play_phase},
    {"search", play_search},
    {"trial", play_trial},
    {"disturbed", play_disturbed},
    {"quiet", [](const Json& json, const Events& events) { events.emit(GpuQuiet{figure_field(json, "waited_s")}); }},
    {"contended",
     [](const Json& json, const Events& events) { events.emit(GpuContended{figure_field(json, "waited_s")}); }},
    {"search_ended", [](const Json&, const Events& events) { events.emit(SearchEnded{TuneResult{}}); }},
    {"range", play_range},
    {"ceiling", play_ceiling},
    {"warning", play_warning},
    {"finished",
     [](const Json& json, const Events& events) { events.emit(Finished{flag_field(json, "interrupted")}); }},
};

}  // namespace

Document event_document(const Event& event) {
  return std::visit([](const auto& what) { return document_of(what); }, event.what);
}

void play_event(std::string_view text, JobId job, const EventListener& listener) {
  const Json json = parse_json(text, "an event");
  try {
    const std::string type = text_field(json, "type");
    for (const Player& player : kPlayers) {
      if (type == player.type) player.play(json, {.job = job, .listener = listener});
    }
  } catch (const Json::exception& error) {
    throw BadInput("an event cannot be read: " + json_error_text(error));
  }
}

}  // namespace moetune
