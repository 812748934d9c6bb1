#include "replay/recording_format.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "kernels/limits_json.h"
#include "replay/number_ranges.h"
#include "replay/recorded_rows.h"

namespace moetune {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kMagic = "{\"moetune_recording\":";
constexpr int kVersion = 1;
constexpr double kMostTbS = 1000, kMostLaunch_us = 10'000;

// The double with the shortest decimal that reads back as this float: 6.13, not 6.130000114440918.
double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

ordered_json hardware_json(const HardwareKey& hardware) {
  return {{"name", hardware.name},
          {"compute_capability", hardware.compute_capability},
          {"sm_count", hardware.sm_count},
          {"l2_bytes", hardware.l2_bytes},
          {"memory_bytes", hardware.memory_bytes},
          {"sm_clock_khz", hardware.sm_clock_khz},
          {"memory_clock_khz", hardware.memory_clock_khz},
          {"driver", hardware.driver}};
}

constexpr std::int64_t kMostSms = 4096, kMostBytes = std::int64_t{1} << 50, kMostKhz = 100'000'000;

HardwareKey hardware_from(const json& item, std::string_view file) {
  const NumberReader numbers(file);
  const auto number = [&](const char* name, std::int64_t least, std::int64_t most) {
    return numbers.integer(item.at(name), std::string("'") + name + "' in hardware", least, most);
  };
  HardwareKey hardware;
  hardware.name = item.at("name").get<std::string>();
  hardware.compute_capability = static_cast<int>(number("compute_capability", 10, 999));
  hardware.sm_count = static_cast<int>(number("sm_count", 1, kMostSms));
  hardware.l2_bytes = number("l2_bytes", 0, kMostBytes);
  hardware.memory_bytes = number("memory_bytes", 1, kMostBytes);
  hardware.sm_clock_khz = static_cast<int>(number("sm_clock_khz", 0, kMostKhz));
  hardware.memory_clock_khz = static_cast<int>(number("memory_clock_khz", 0, kMostKhz));
  hardware.driver = item.at("driver").get<std::string>();
  return hardware;
}

DeviceLimits limits_from(const json& item, std::string_view file) {
  struct Range {
    const char* name;
    std::int64_t least, most;
  };
  constexpr std::int64_t kMostOnSm = std::int64_t{1} << 30;
  constexpr Range kRanges[] = {{"compute_capability", 10, 999},    {"sm_count", 1, kMostSms},
                               {"shared_per_block", 1, kMostOnSm}, {"shared_per_sm", 1, kMostOnSm},
                               {"registers_per_sm", 1, kMostOnSm}, {"threads_per_sm", 32, kMostOnSm},
                               {"l2_bytes", 0, kMostBytes},        {"memory_bytes", 1, kMostBytes}};
  for (const Range& range : kRanges) {
    NumberReader(file).integer(item.at(range.name), std::string("'") + range.name + "' in limits", range.least,
                               range.most);
  }
  return item.get<DeviceLimits>();
}

ordered_json parameter_json(const Parameter& parameter) {
  ordered_json values = ordered_json::array();
  for (const Value& value : parameter.values) {
    if (value.is_named()) {
      values.push_back(value.name);
    } else {
      values.push_back(value.number);
    }
  }
  return {{"name", parameter.name}, {"doc", parameter.doc}, {"values", std::move(values)}};
}

Parameter parameter_from(const json& item, std::string_view file) {
  const NumberReader numbers(file);
  constexpr std::int64_t kMostValue = std::int64_t{1} << 62;
  Parameter parameter{item.at("name").get<std::string>(), {}, item.at("doc").get<std::string>()};
  const std::string of = "'" + parameter.name + "'";
  std::set<std::string> seen;
  for (const json& value : item.at("values")) {
    const auto position = static_cast<std::int64_t>(parameter.values.size());
    if (position > std::numeric_limits<Position>::max()) numbers.fail(of + " has more than 65536 values");
    parameter.values.push_back(
        value.is_string() ? Value::named(value.get<std::string>(), position)
                          : Value::integer(numbers.integer(value, "a value of " + of, -kMostValue, kMostValue)));
    if (parameter.values.back().is_named() != value.is_string() ||
        parameter.values.back().is_named() != parameter.values.front().is_named()) {
      numbers.fail("the values of " + of + " are neither all integers nor all names");
    }
    if (!seen.insert(parameter.values.back().text()).second)
      numbers.fail(of + " has the value " + parameter.values.back().text() + " twice");
  }
  if (parameter.values.empty()) numbers.fail(of + " has no values");
  return parameter;
}

std::vector<Parameter> parameters_from(const json& header, std::string_view file) {
  std::vector<Parameter> parameters;
  std::set<std::string> names;
  for (const json& item : header.at("parameters")) {
    parameters.push_back(parameter_from(item, file));
    if (!names.insert(parameters.back().name).second)
      NumberReader(file).fail("the parameter '" + parameters.back().name + "' occurs twice");
  }
  return parameters;
}

void check_version(const json& header, std::string_view file) {
  const std::int64_t version = NumberReader(file).integer(header.at("moetune_recording"), "the format", 0, INT64_MAX);
  if (version != kVersion) {
    throw BadInput(std::string(file) + ": recording format " + std::to_string(version) +
                   "; this moetune reads format " + std::to_string(kVersion));
  }
}

json parse_line(std::string_view line, std::string_view file, const char* what) {
  return parse_json(line, std::string(file) + ": the " + what);
}

const json& column(const json& rows, const char* name, std::size_t count, std::string_view file) {
  const json& values = rows.at(name);
  if (!values.is_array() || values.size() != count) {
    throw BadInput(std::string(file) + ": the column '" + name + "' does not hold " + std::to_string(count) + " rows");
  }
  return values;
}

Outcome outcome_from(const json& name, std::string_view file) {
  const std::string text = name.get<std::string>();
  if (const std::optional<Outcome> outcome = outcome_from_name(text)) return *outcome;
  throw BadInput(std::string(file) + ": unknown outcome '" + text + "'");
}

void check_positions(const json& positions, std::size_t count, std::size_t width, std::string_view file) {
  if (positions.size() != width) {
    throw BadInput(std::string(file) + ": " + std::to_string(positions.size()) + " columns of positions for " +
                   std::to_string(width) + " parameters");
  }
  for (const json& values : positions) {
    if (values.size() != count) throw BadInput(std::string(file) + ": a column of positions is too short or too long");
  }
}

RecordedTrial trial_from(const json& outcome, const json& time, const json& samples, std::size_t row,
                         std::string_view file) {
  const NumberReader numbers(file);
  RecordedTrial trial;
  trial.outcome = outcome_from(outcome, file);
  const std::string of = " of row " + std::to_string(row);
  if (!time.is_null()) trial.time_us = numbers.time(time, "the time" + of);
  if (has_time(trial.outcome) && time.is_null())
    numbers.fail("row " + std::to_string(row) + " is " + std::string(outcome_name(trial.outcome)) + " but has no time");
  if (!samples.is_array()) numbers.fail("the samples" + of + " are no list");
  for (const json& sample : samples) trial.samples_us.push_back(numbers.time(sample, "a sample" + of));
  return trial;
}

std::vector<RecordedRow> rows_from(const json& rows, std::size_t count, const std::vector<Parameter>& parameters,
                                   std::string_view file) {
  const NumberReader numbers(file);
  const json& positions = rows.at("positions");
  check_positions(positions, count, parameters.size(), file);
  const json& outcomes = column(rows, "outcomes", count, file);
  std::vector<RecordedRow> result(count);  // as many as there are, whatever the header says
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto values = static_cast<std::int64_t>(parameters[p].values.size());
    for (std::size_t i = 0; i < count; ++i) {
      const json& position = positions[p][i];
      const bool inside =
          position.is_number_integer() && position.get<std::int64_t>() >= 0 && position.get<std::int64_t>() < values;
      if (!inside) {
        numbers.fail("row " + std::to_string(i) + " lies outside the domain of '" + parameters[p].name + "'");
      }
      result[i].point.push_back(position.get<Position>());
    }
  }
  const json& times = column(rows, "time_us", count, file);
  const json& samples = column(rows, "samples_us", count, file);
  for (std::size_t i = 0; i < count; ++i) result[i].trial = trial_from(outcomes[i], times[i], samples[i], i, file);
  for (const json& message : rows.at("messages")) {
    const auto row = numbers.integer(message.at(0), "the row of a message", 0, INT64_MAX);
    if (static_cast<std::size_t>(row) >= count) numbers.fail("a message for a row that does not exist");
    result[static_cast<std::size_t>(row)].trial.message = message.at(1).get<std::string>();
  }
  return result;
}

// 0 if the recording does not say.
double ceiling_from(const json& header, const char* name, double most, std::string_view file) {
  const auto found = header.find(name);
  if (found == header.end()) return 0;
  return NumberReader(file).real(*found, std::string("'") + name + "'", 1e-3, most);
}

Recording recording_from(const json& header, const json& rows, std::string_view file) {
  check_version(header, file);
  std::vector<Parameter> parameters = parameters_from(header, file);
  const auto count = static_cast<std::size_t>(NumberReader(file).integer(header.at("rows"), "'rows'", 0, INT64_MAX));
  std::vector<RecordedRow> recorded = rows_from(rows, count, parameters, file);
  SortedRows sorted = sort_rows(std::move(parameters), std::move(recorded));
  if (sorted.trials.size() != count) throw BadInput(std::string(file) + ": a configuration occurs twice");
  return {.hardware = hardware_from(header.at("hardware"), file),
          .limits = limits_from(header.at("limits"), file),
          .kernel = header.at("kernel").get<std::string>(),
          .problem = header.at("problem").get<std::string>(),
          .source_digest = header.at("source_digest").get<std::string>(),
          .toolchain = header.at("toolchain").get<std::string>(),
          .recorded_at = header.at("recorded_at").get<std::string>(),
          .read_tb_s = ceiling_from(header, "read_tb_s", kMostTbS, file),
          .launch_us = ceiling_from(header, "launch_us", kMostLaunch_us, file),
          .digest = "",
          .space = std::move(sorted.space),
          .trials = std::move(sorted.trials)};
}

ordered_json header_json(const Recording& recording) {
  ordered_json parameters = ordered_json::array();
  for (const Parameter& parameter : recording.space.parameters()) parameters.push_back(parameter_json(parameter));
  ordered_json header = {{"moetune_recording", kVersion},
                         {"kernel", recording.kernel},
                         {"problem", recording.problem},
                         {"recorded_at", recording.recorded_at},
                         {"hardware", hardware_json(recording.hardware)},
                         {"limits", ordered_json(recording.limits)}};
  if (recording.read_tb_s > 0) header["read_tb_s"] = recording.read_tb_s;
  if (recording.launch_us > 0) header["launch_us"] = recording.launch_us;
  header["source_digest"] = recording.source_digest;
  header["toolchain"] = recording.toolchain;
  header["parameters"] = std::move(parameters);
  header["rows"] = recording.trials.size();
  return header;
}

ordered_json rows_json(const Recording& recording) {
  ordered_json positions = ordered_json::array();
  for (std::size_t p = 0; p < recording.space.parameters().size(); ++p) {
    ordered_json& values = positions.emplace_back(ordered_json::array());
    for (ConfigId id = 0; id < recording.space.size(); ++id) values.push_back(recording.space.point(id)[p]);
  }
  ordered_json outcomes = ordered_json::array();
  ordered_json times = ordered_json::array();
  ordered_json samples = ordered_json::array();
  ordered_json messages = ordered_json::array();
  for (std::size_t i = 0; i < recording.trials.size(); ++i) {
    const RecordedTrial& trial = recording.trials[i];
    outcomes.push_back(outcome_name(trial.outcome));
    times.push_back(has_time(trial.outcome) ? ordered_json(shortest(trial.time_us)) : ordered_json(nullptr));
    ordered_json& list = samples.emplace_back(ordered_json::array());
    for (const float sample : trial.samples_us) list.push_back(shortest(sample));
    if (!trial.message.empty()) messages.push_back({i, trial.message});
  }
  return {{"positions", std::move(positions)},
          {"outcomes", std::move(outcomes)},
          {"time_us", std::move(times)},
          {"samples_us", std::move(samples)},
          {"messages", std::move(messages)}};
}

}  // namespace

bool is_moetune_recording(std::string_view text) { return text.starts_with(kMagic); }

Recording parse_moetune_recording(std::string_view text, std::string_view file) {
  const std::size_t newline = text.find('\n');
  if (newline == std::string_view::npos) throw BadInput(std::string(file) + ": the recording ends after its header");
  const json header = parse_line(text.substr(0, newline), file, "header");
  const json rows = parse_line(text.substr(newline + 1), file, "rows");
  try {
    Recording recording = recording_from(header, rows, file);
    recording.digest = digest(text);
    return recording;
  } catch (const json::exception& error) {
    throw BadInput(std::string(file) + ": " + json_error_text(error));
  }
}

RecordingHeader parse_moetune_header(std::string_view first_line, std::string_view file) {
  const json header = parse_line(first_line, file, "header");
  try {
    check_version(header, file);
    return {header.at("hardware").at("name").get<std::string>(), header.at("kernel").get<std::string>(),
            header.at("problem").get<std::string>(), header.at("recorded_at").get<std::string>()};
  } catch (const json::exception& error) {
    throw BadInput(std::string(file) + ": " + json_error_text(error));
  }
}

std::string format_recording(const Recording& recording) {
  constexpr auto kReplaceBadUtf8 = ordered_json::error_handler_t::replace;
  return header_json(recording).dump(-1, ' ', false, kReplaceBadUtf8) + "\n" +
         rows_json(recording).dump(-1, ' ', false, kReplaceBadUtf8) + "\n";
}

}  // namespace moetune
