#include "replay/recording_format.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "kernels/limits_json.h"
#include "replay/recorded_rows.h"

namespace moetune {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kMagic = "{\"moetune_recording\":";
constexpr int kVersion = 1;

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

HardwareKey hardware_from(const json& item) {
  HardwareKey hardware;
  hardware.name = item.at("name").get<std::string>();
  hardware.compute_capability = item.at("compute_capability").get<int>();
  hardware.sm_count = item.at("sm_count").get<int>();
  hardware.l2_bytes = item.at("l2_bytes").get<std::int64_t>();
  hardware.memory_bytes = item.at("memory_bytes").get<std::int64_t>();
  hardware.sm_clock_khz = item.at("sm_clock_khz").get<int>();
  hardware.memory_clock_khz = item.at("memory_clock_khz").get<int>();
  hardware.driver = item.at("driver").get<std::string>();
  return hardware;
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
  Parameter parameter{item.at("name").get<std::string>(), {}, item.at("doc").get<std::string>()};
  for (const json& value : item.at("values")) {
    const auto position = static_cast<std::int64_t>(parameter.values.size());
    parameter.values.push_back(value.is_string() ? Value::named(value.get<std::string>(), position)
                                                 : Value::integer(value.get<std::int64_t>()));
    if (parameter.values.back().is_named() != value.is_string() ||
        parameter.values.back().is_named() != parameter.values.front().is_named()) {
      throw BadInput(std::string(file) + ": the values of '" + parameter.name +
                     "' are neither all integers nor all names");
    }
  }
  if (parameter.values.empty())
    throw BadInput(std::string(file) + ": '" + parameter.name + "' has no values");
  return parameter;
}

void check_version(const json& header, std::string_view file) {
  const int version = header.at("moetune_recording").get<int>();
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
    throw BadInput(std::string(file) + ": the column '" + name + "' does not hold " + std::to_string(count) +
                   " rows");
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
    throw BadInput(std::string(file) + ": " + std::to_string(positions.size()) +
                   " columns of positions for " + std::to_string(width) + " parameters");
  }
  for (const json& values : positions) {
    if (values.size() != count)
      throw BadInput(std::string(file) + ": a column of positions is too short or too long");
  }
}

std::vector<RecordedRow> rows_from(const json& rows, std::size_t count,
                                   const std::vector<Parameter>& parameters, std::string_view file) {
  const json& positions = rows.at("positions");
  check_positions(positions, count, parameters.size(), file);
  const json& outcomes = column(rows, "outcomes", count, file);
  std::vector<RecordedRow> result(count);  // as many as there are, whatever the header says
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto values = static_cast<std::int64_t>(parameters[p].values.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto position = positions[p][i].get<std::int64_t>();
      if (position < 0 || position >= values) {
        throw BadInput(std::string(file) + ": row " + std::to_string(i) + " lies outside the domain of '" +
                       parameters[p].name + "'");
      }
      result[i].point.push_back(static_cast<Position>(position));
    }
  }
  const json& times = column(rows, "time_us", count, file);
  const json& samples = column(rows, "samples_us", count, file);
  for (std::size_t i = 0; i < count; ++i) {
    RecordedTrial& trial = result[i].trial;
    trial.outcome = outcome_from(outcomes[i], file);
    if (!times[i].is_null()) trial.time_us = times[i].get<float>();
    if (has_time(trial.outcome) && !(trial.time_us > 0)) {
      throw BadInput(std::string(file) + ": row " + std::to_string(i) + " is " +
                     std::string(outcome_name(trial.outcome)) + " but has no time");
    }
    trial.samples_us = samples[i].get<std::vector<float>>();
  }
  for (const json& message : rows.at("messages")) {
    const auto row = message.at(0).get<std::size_t>();
    if (row >= count) throw BadInput(std::string(file) + ": a message for a row that does not exist");
    result[row].trial.message = message.at(1).get<std::string>();
  }
  return result;
}

double ceiling_from(const json& header, const char* name, std::string_view file) {
  const auto found = header.find(name);
  if (found == header.end()) return 0;
  if (found->is_number() && found->get<double>() > 0) return found->get<double>();
  throw BadInput(std::string(file) + ": '" + name + "' is " + found->dump() + ", no positive number");
}

Recording recording_from(const json& header, const json& rows, std::string_view file) {
  check_version(header, file);
  std::vector<Parameter> parameters;
  for (const json& item : header.at("parameters")) parameters.push_back(parameter_from(item, file));
  const auto count = header.at("rows").get<std::size_t>();
  std::vector<RecordedRow> recorded = rows_from(rows, count, parameters, file);
  SortedRows sorted = sort_rows(std::move(parameters), std::move(recorded));
  if (sorted.trials.size() != count) throw BadInput(std::string(file) + ": a configuration stands twice");
  return {.hardware = hardware_from(header.at("hardware")),
          .limits = header.at("limits").get<DeviceLimits>(),
          .kernel = header.at("kernel").get<std::string>(),
          .problem = header.at("problem").get<std::string>(),
          .source_digest = header.at("source_digest").get<std::string>(),
          .toolchain = header.at("toolchain").get<std::string>(),
          .recorded_at = header.at("recorded_at").get<std::string>(),
          .read_tb_s = ceiling_from(header, "read_tb_s", file),
          .launch_us = ceiling_from(header, "launch_us", file),
          .digest = "",
          .space = std::move(sorted.space),
          .trials = std::move(sorted.trials)};
}

ordered_json header_json(const Recording& recording) {
  ordered_json parameters = ordered_json::array();
  for (const Parameter& parameter : recording.space.parameters())
    parameters.push_back(parameter_json(parameter));
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
  if (newline == std::string_view::npos)
    throw BadInput(std::string(file) + ": the recording ends after its header");
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
