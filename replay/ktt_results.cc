#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/lists.h"
#include "replay/listed_results.h"

namespace moetune {
namespace {

constexpr std::array kStatuses = {OutcomeName{"Ok", Outcome::ok}, OutcomeName{"DeviceLimitsExceeded", Outcome::pruned},
                                  OutcomeName{"CompilationFailed", Outcome::compile_failed},
                                  OutcomeName{"ComputationFailed", Outcome::launch_failed},
                                  OutcomeName{"ValidationFailed", Outcome::wrong_result}};

// One of `Results`.
struct KttResult {
  std::string kernel, status;
  std::optional<double> duration;
  std::vector<NamedValue> configuration;
};

// A parameter is an object with Name and Value, in either order.
struct KttPair {
  std::string position, name;
  std::vector<JsonField> value;
};

std::string path_of(std::initializer_list<std::string_view> steps) {
  return joined(steps, std::string_view(&kPathMark, 1));
}

struct KttFormat {
  ResultFile found;
  std::string unit;
  bool is_named = false;  // by the first result

  void take_header(const JsonField& field);
  static KttResult result_of(const JsonRow& row);
  void see(const KttResult& result, const std::string& row);
  StatedObjectives stated() const { return {.names = {}, .larger_is_better = {}, .units = {{"time", unit}}}; }
  FigureRow judged(const KttResult& result, const std::string& row) const;
};

void KttFormat::take_header(const JsonField& field) {
  if (field.path == path_of({"Metadata", "Device"})) found.device = field.text;
  if (field.path == path_of({"Metadata", "TimeUnit"})) unit = field.text;
  if (field.path == path_of({"Metadata", "Timestamp"})) found.recorded_at = date_of(field.text);
}

KttResult KttFormat::result_of(const JsonRow& row) {
  static const std::string kConfiguration = path_of({"Configuration", ""});
  KttResult result;
  std::vector<KttPair> pairs;
  for (const JsonField& field : row.fields) {
    if (field.path == "KernelName") result.kernel = field.text;
    if (field.path == "Status") result.status = field.text;
    if (field.path == "TotalDuration" && field.is_number()) result.duration = field.number;
    if (!field.path.starts_with(kConfiguration)) continue;
    const std::string rest = field.path.substr(kConfiguration.size());
    const std::string position = rest.substr(0, rest.find(kPathMark));
    if (pairs.empty() || pairs.back().position != position) pairs.push_back({position, "", {}});
    if (rest == path_of({position, "Name"})) pairs.back().name = field.text;
    if (rest == path_of({position, "Value"})) pairs.back().value = {field};
  }
  for (const KttPair& pair : pairs) {
    for (NamedValue& one : values_of(pair.value, 3)) result.configuration.push_back({pair.name, std::move(one.value)});
  }
  return result;
}

void KttFormat::see(const KttResult& result, const std::string& row) {
  if (!std::exchange(is_named, true)) found.kernel = result.kernel;
  if (result.kernel != found.kernel) {
    throw BadInput(row + " is of the kernel '" + brief_name(result.kernel) + "', and those before it are of '" +
                   brief_name(found.kernel) + "'; a recording is of one");
  }
}

FigureRow KttFormat::judged(const KttResult& result, const std::string& row) const {
  FigureRow judged;
  RecordedTrial& trial = judged.row.trial;
  trial.outcome = outcome_named(result.status, kStatuses).value_or(Outcome::launch_failed);
  if (trial.outcome != Outcome::ok) {
    trial.message = result.status;
  } else if (result.duration) {
    const double us = found.objective.is_time() ? microseconds_in(unit).value() : 1;
    take_figure(judged, *result.duration * us, {}, found.objective, row);
  } else {
    trial.outcome = Outcome::launch_failed;
    trial.message = "recorded without a TotalDuration";
  }
  return judged;
}

}  // namespace

ResultFile read_ktt(std::string_view text, std::string_view file, const std::string& objective) {
  return read_listed<KttFormat>(text, file, objective);
}

}  // namespace moetune
