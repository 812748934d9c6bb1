#include <array>
#include <optional>

#include "base/error.h"
#include "base/lists.h"
#include "replay/result_readers.h"

namespace moetune {
namespace {

struct KttStatus {
  std::string_view name;
  Outcome outcome;
};
constexpr std::array kStatuses = {KttStatus{"Ok", Outcome::ok}, KttStatus{"DeviceLimitsExceeded", Outcome::pruned},
                                  KttStatus{"CompilationFailed", Outcome::compile_failed},
                                  KttStatus{"ComputationFailed", Outcome::launch_failed},
                                  KttStatus{"ValidationFailed", Outcome::wrong_result}};

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

KttResult ktt_result_of(const JsonRow& row) {
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

class KttReader {
 public:
  KttReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  ResultFile read(const std::string& wanted);

 private:
  void take_header(const JsonField& field);
  void see(const KttResult& result);
  FigureRow judged(const KttResult& result) const;
  KttResult next(const JsonRow& row);  // numbers the rows

  std::string_view text_, file_;
  ResultFile found_;
  ConfiguredRows shape_;
  std::string unit_, row_;
  std::size_t number_ = 0;
};

void KttReader::take_header(const JsonField& field) {
  if (field.path == path_of({"Metadata", "Device"})) found_.device = field.text;
  if (field.path == path_of({"Metadata", "TimeUnit"})) unit_ = field.text;
  if (field.path == path_of({"Metadata", "Timestamp"})) found_.recorded_at = date_of(field.text);
}

KttResult KttReader::next(const JsonRow& row) {
  row_ = std::string(file_) + ": result " + std::to_string(++number_);
  if (number_ > kMostRows) throw BadInput(std::string(file_) + ": more than " + std::to_string(kMostRows) + " results");
  return ktt_result_of(row);
}

void KttReader::see(const KttResult& result) {
  if (number_ == 1) found_.kernel = result.kernel;
  if (result.kernel != found_.kernel) {
    throw BadInput(row_ + " is of the kernel '" + brief_name(result.kernel) + "', and those before it are of '" +
                   brief_name(found_.kernel) + "'; a recording is of one");
  }
  shape_.see(result.configuration, row_);
}

FigureRow KttReader::judged(const KttResult& result) const {
  FigureRow judged;
  RecordedTrial& trial = judged.row.trial;
  trial.outcome = Outcome::launch_failed;
  for (const KttStatus& one : kStatuses) {
    if (one.name == result.status) trial.outcome = one.outcome;
  }
  if (trial.outcome != Outcome::ok) {
    trial.message = result.status;
  } else if (result.duration) {
    const double us = found_.objective.is_time() ? microseconds_in(unit_).value() : 1;
    take_figure(judged, *result.duration * us, {}, found_.objective, row_);
  } else {
    trial.outcome = Outcome::launch_failed;
    trial.message = "recorded without a TotalDuration";
  }
  return judged;
}

ResultFile KttReader::read(const std::string& wanted) {
  read_json_rows(text_, file_, {[&](JsonField&& field) { take_header(field); }, [&](JsonRow& row) { see(next(row)); }});
  if (number_ == 0) throw BadInput(std::string(file_) + ": it holds no result");
  found_.objective = choose_objective(wanted, {.names = {}, .larger_is_better = {}, .units = {{"time", unit_}}}, file_);
  shape_.seal();
  number_ = 0;
  read_json_rows(text_, file_, {{}, [&](JsonRow& row) {
                                  const KttResult result = next(row);
                                  FigureRow taken = judged(result);
                                  taken.row.point = shape_.point(result.configuration, row_);
                                  found_.rows.push_back(std::move(taken));
                                }});
  found_.parameters = shape_.parameters(file_);
  return std::move(found_);
}

}  // namespace

ResultFile read_ktt(std::string_view text, std::string_view file, const std::string& objective) {
  return KttReader(text, file).read(objective);
}

}  // namespace moetune
