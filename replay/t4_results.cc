#include <algorithm>
#include <array>
#include <optional>

#include "base/lists.h"
#include "base/statistics.h"
#include "replay/listed_results.h"

namespace moetune {
namespace {

constexpr std::array kInvalidities = {OutcomeName{"correct", Outcome::ok},
                                      OutcomeName{"constraints", Outcome::pruned},
                                      OutcomeName{"compile", Outcome::compile_failed},
                                      OutcomeName{"runtime", Outcome::launch_failed},
                                      OutcomeName{"correctness", Outcome::wrong_result},
                                      OutcomeName{"timeout", Outcome::timed_out}};

struct T4Figure {
  std::string name, unit;
  std::optional<double> value;
};

// One of `results`, its values by what they say.
struct T4Result {
  std::vector<NamedValue> configuration;
  std::vector<std::string> objectives;
  std::vector<T4Figure> figures;
  std::vector<double> runtimes;
  std::string invalidity, timestamp;
  bool is_wrong = false;
};

// KTT writes every value as a text.
void read_as_integer(FoundValue& value) {
  if (value.integer) return;
  const FoundValue read = value_of_text(value.text);
  if (read.integer && std::to_string(*read.integer) == value.text) value = read;
}

std::vector<NamedValue> configuration_of(const std::vector<JsonField>& fields) {
  std::vector<NamedValue> values = values_of(fields, 2);
  for (NamedValue& one : values) {
    one.path.erase(0, one.path.find(kPathMark) + 1);
    read_as_integer(one.value);
  }
  return values;
}

struct T4Format {
  ResultFile found;
  StatedObjectives seen;
  std::string time_unit;

  void take_header(const JsonField& field);
  static T4Result result_of(const JsonRow& row);
  void see(const T4Result& result, const std::string& row);
  StatedObjectives stated() const;
  FigureRow judged(const T4Result& result, const std::string& row) const;
  std::vector<T4Figure> figures_of(const T4Result& result) const;
};

void T4Format::take_header(const JsonField& field) {
  const std::vector<std::string_view> steps = split(field.path, kPathMark);
  if (steps.size() != 2 || steps[0] != "metadata" || field.kind != JsonField::Kind::text) return;
  if (steps[1] == "timeunit") time_unit = field.text;
  if (steps[1] == "device" || steps[1] == "device_name") found.device = field.text;
  if (steps[1] == "kernel" || steps[1] == "kernel_name") found.kernel = field.text;
  if (steps[1] == "problem") found.problem = field.text;
  if (steps[1] == "timestamp") found.recorded_at = date_of(field.text);
}

T4Result T4Format::result_of(const JsonRow& row) {
  T4Result result;
  std::vector<JsonField> configuration;
  std::string measurement;
  for (const JsonField& field : row.fields) {
    const std::vector<std::string_view> steps = split(field.path, kPathMark);
    if (steps.size() == 1 && steps[0] == "invalidity") result.invalidity = field.text;
    if (steps.size() == 1 && steps[0] == "timestamp") result.timestamp = field.text;
    if (steps.size() == 1 && steps[0] == "correctness") result.is_wrong = field.is_number() && field.number == 0;
    if (steps.size() == 2 && steps[0] == "objectives") result.objectives.push_back(field.text);
    if (steps.size() == 3 && steps[0] == "times" && steps[1] == "runtimes" && field.is_number())
      result.runtimes.push_back(field.number);
    if (steps.size() >= 2 && steps[0] == "configuration") configuration.push_back(field);
    if (steps.size() != 3 || steps[0] != "measurements") continue;
    if (result.figures.empty() || steps[1] != measurement) result.figures.emplace_back();
    measurement = steps[1];
    T4Figure& figure = result.figures.back();
    if (steps[2] == "name") figure.name = field.text;
    if (steps[2] == "unit") figure.unit = field.text;
    if (steps[2] == "value" && field.is_number()) figure.value = field.number;
  }
  result.configuration = configuration_of(configuration);
  return result;
}

// A time without a unit is in that of the file, which is known after the first reading. If no time is measured, it is
// the median of the runs.
std::vector<T4Figure> T4Format::figures_of(const T4Result& result) const {
  std::vector<T4Figure> figures = result.figures;
  bool has_time = false;
  for (T4Figure& figure : figures) {
    if (figure.name != "time") continue;
    has_time = true;
    if (figure.unit.empty()) figure.unit = time_unit;
  }
  if (!has_time && !result.runtimes.empty()) figures.push_back({"time", time_unit, median_of(result.runtimes)});
  return figures;
}

void T4Format::see(const T4Result& result, const std::string&) {
  for (const std::string& name : result.objectives) {
    const bool is_new = std::find(seen.names.begin(), seen.names.end(), name) == seen.names.end();
    if (is_new && seen.names.size() < StatedObjectives::kMost) seen.names.push_back(name);
  }
  for (const T4Figure& figure : figures_of(result)) {
    if (figure.value && seen.units.size() < StatedObjectives::kMost) seen.units.emplace(figure.name, figure.unit);
  }
  if (found.recorded_at.empty()) found.recorded_at = date_of(result.timestamp);
}

FigureRow T4Format::judged(const T4Result& result, const std::string& row) const {
  FigureRow judged;
  RecordedTrial& trial = judged.row.trial;
  trial.outcome = outcome_named(result.invalidity, kInvalidities).value_or(Outcome::launch_failed);
  if (trial.outcome == Outcome::ok && result.is_wrong) trial.outcome = Outcome::wrong_result;
  if (trial.outcome != Outcome::ok) {
    trial.message = result.invalidity;
    return judged;
  }
  const bool is_time = found.objective.is_time();
  for (const T4Figure& figure : figures_of(result)) {
    if (figure.name != found.objective.name || !figure.value) continue;
    const std::optional<double> us = microseconds_in(figure.unit), sample_us = microseconds_in(time_unit);
    if (is_time && !us) break;
    std::vector<double> samples;
    if (is_time && sample_us) {
      for (const double runtime : result.runtimes) samples.push_back(runtime * *sample_us);
    }
    take_figure(judged, is_time ? *figure.value * *us : *figure.value, std::move(samples), found.objective, row);
    return judged;
  }
  trial.outcome = Outcome::launch_failed;
  trial.message = "recorded without a " + brief_name(found.objective.name);
  return judged;
}

StatedObjectives T4Format::stated() const {
  StatedObjectives stated = seen;
  if (stated.names.empty()) stated.names.push_back("time");
  if (stated.names.front() == "time") stated.units.emplace("time", "");
  const auto time = stated.units.find("time");
  if (time != stated.units.end() && time->second.empty()) time->second = time_unit;
  return stated;
}

}  // namespace

ResultFile read_t4(std::string_view text, std::string_view file, const std::string& objective) {
  return read_listed<T4Format>(text, file, objective);
}

}  // namespace moetune
