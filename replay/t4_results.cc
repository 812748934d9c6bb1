#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/lists.h"
#include "base/statistics.h"
#include "replay/result_readers.h"

namespace moetune {
namespace {

struct Invalidity {
  std::string_view name;
  Outcome outcome;
};
constexpr std::array kInvalidities = {Invalidity{"correct", Outcome::ok},
                                      Invalidity{"constraints", Outcome::pruned},
                                      Invalidity{"compile", Outcome::compile_failed},
                                      Invalidity{"runtime", Outcome::launch_failed},
                                      Invalidity{"correctness", Outcome::wrong_result},
                                      Invalidity{"timeout", Outcome::timed_out}};

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

T4Result t4_result_of(const JsonRow& row) {
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

class T4Reader {
 public:
  T4Reader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  ResultFile read(const std::string& wanted);

 private:
  void take_header(const JsonField& field);
  void see(const T4Result& result, const std::string& row);
  T4Result next(const JsonRow& row, std::string& name);  // numbers the rows
  std::vector<T4Figure> figures_of(const T4Result& result) const;
  FigureRow judged(const T4Result& result, const std::string& row) const;

  std::string_view text_, file_;
  ResultFile found_;
  StatedObjectives stated_;
  ConfiguredRows shape_;
  std::string time_unit_;
  std::size_t number_ = 0;
};

void T4Reader::take_header(const JsonField& field) {
  const std::vector<std::string_view> steps = split(field.path, kPathMark);
  if (steps.size() != 2 || steps[0] != "metadata" || field.kind != JsonField::Kind::text) return;
  if (steps[1] == "timeunit") time_unit_ = field.text;
  if (steps[1] == "device" || steps[1] == "device_name") found_.device = field.text;
  if (steps[1] == "kernel" || steps[1] == "kernel_name") found_.kernel = field.text;
  if (steps[1] == "problem") found_.problem = field.text;
  if (steps[1] == "timestamp") found_.recorded_at = date_of(field.text);
}

// A time without a unit is in that of the file, which is known after the first reading. If no time is measured, it is
// the median of the runs.
std::vector<T4Figure> T4Reader::figures_of(const T4Result& result) const {
  std::vector<T4Figure> figures = result.figures;
  bool has_time = false;
  for (T4Figure& figure : figures) {
    if (figure.name != "time") continue;
    has_time = true;
    if (figure.unit.empty()) figure.unit = time_unit_;
  }
  if (!has_time && !result.runtimes.empty()) figures.push_back({"time", time_unit_, median_of(result.runtimes)});
  return figures;
}

T4Result T4Reader::next(const JsonRow& row, std::string& name) {
  name = std::string(file_) + ": result " + std::to_string(++number_);
  if (number_ > kMostRows) throw BadInput(std::string(file_) + ": more than " + std::to_string(kMostRows) + " results");
  return t4_result_of(row);
}

void T4Reader::see(const T4Result& result, const std::string& row) {
  shape_.see(result.configuration, row);
  for (const std::string& name : result.objectives) {
    const bool is_new = std::find(stated_.names.begin(), stated_.names.end(), name) == stated_.names.end();
    if (is_new && stated_.names.size() < StatedObjectives::kMost) stated_.names.push_back(name);
  }
  for (const T4Figure& figure : figures_of(result)) {
    if (figure.value && stated_.units.size() < StatedObjectives::kMost) stated_.units.emplace(figure.name, figure.unit);
  }
  if (found_.recorded_at.empty()) found_.recorded_at = date_of(result.timestamp);
}

FigureRow T4Reader::judged(const T4Result& result, const std::string& row) const {
  FigureRow judged;
  RecordedTrial& trial = judged.row.trial;
  trial.outcome = Outcome::launch_failed;
  for (const Invalidity& one : kInvalidities) {
    if (one.name == result.invalidity) trial.outcome = one.outcome;
  }
  if (trial.outcome == Outcome::ok && result.is_wrong) trial.outcome = Outcome::wrong_result;
  if (trial.outcome != Outcome::ok) {
    trial.message = result.invalidity;
    return judged;
  }
  const bool is_time = found_.objective.is_time();
  for (const T4Figure& figure : figures_of(result)) {
    if (figure.name != found_.objective.name || !figure.value) continue;
    const std::optional<double> us = microseconds_in(figure.unit), sample_us = microseconds_in(time_unit_);
    if (is_time && !us) break;
    std::vector<double> samples;
    if (is_time && sample_us) {
      for (const double runtime : result.runtimes) samples.push_back(runtime * *sample_us);
    }
    take_figure(judged, is_time ? *figure.value * *us : *figure.value, std::move(samples), found_.objective, row);
    return judged;
  }
  trial.outcome = Outcome::launch_failed;
  trial.message = "recorded without a " + brief_name(found_.objective.name);
  return judged;
}

ResultFile T4Reader::read(const std::string& wanted) {
  std::string name;
  read_json_rows(text_, file_,
                 {[&](JsonField&& field) { take_header(field); },
                  [&](JsonRow& row) {
                    const T4Result result = next(row, name);
                    see(result, name);
                  }});
  if (number_ == 0) throw BadInput(std::string(file_) + ": it holds no result");
  if (stated_.names.empty()) stated_.names.push_back("time");
  if (stated_.names.front() == "time") stated_.units.emplace("time", "");
  const auto time = stated_.units.find("time");
  if (time != stated_.units.end() && time->second.empty()) time->second = time_unit_;
  found_.objective = choose_objective(wanted, stated_, file_);
  shape_.seal();
  number_ = 0;
  read_json_rows(text_, file_, {{}, [&](JsonRow& row) {
                                  const T4Result result = next(row, name);
                                  FigureRow taken = judged(result, name);
                                  taken.row.point = shape_.point(result.configuration, name);
                                  found_.rows.push_back(std::move(taken));
                                }});
  found_.parameters = shape_.parameters(file_);
  return std::move(found_);
}

}  // namespace

ResultFile read_t4(std::string_view text, std::string_view file, const std::string& objective) {
  return T4Reader(text, file).read(objective);
}

}  // namespace moetune
