#include "replay/kernel_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/digest.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "replay/number_ranges.h"
#include "replay/recorded_rows.h"

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRows = std::size_t{1} << 20;  // the largest published space has a third of that
constexpr std::size_t kMaxDomain = 65536, kMaxParameters = 128;
constexpr double kErrorTime = 1e20;  // what Kernel Tuner stored for failures before it had names for them

// A value as Python prints it, which is how the keys of `cache` hold it.
struct PythonValue {
  std::string text;
  bool is_integer = false;
  std::int64_t number = 0;
};

struct CacheRow {
  std::string key;
  RecordedTrial trial;
};

struct CacheFile {
  std::string device_name, kernel_name, timestamp;
  std::vector<std::string> problem_size;
  std::vector<std::string> keys;
  std::map<std::string, std::vector<PythonValue>> domains;
  std::vector<CacheRow> rows;
};

Outcome outcome_of_error(const std::string& name) {
  if (name == "CompilationFailedConfig") return Outcome::compile_failed;
  if (name == "InvalidConfig") return Outcome::pruned;
  if (name == "IncorrectResult") return Outcome::wrong_result;
  return Outcome::launch_failed;
}

class Handler : public json::json_sax_t {
 public:
  explicit Handler(std::size_t size) : size_(size) {}

  CacheFile file;
  std::string error;

  bool null() override { return in("cache") || value({"None"}); }
  bool boolean(bool yes) override { return in("cache") || value({yes ? "True" : "False"}); }
  bool number_integer(std::int64_t number) override {
    return in("cache") ? measured(static_cast<double>(number))
                       : value({std::to_string(number), true, number});
  }
  bool number_unsigned(std::uint64_t number) override {
    if (in("cache")) return measured(static_cast<double>(number));
    return value(
        {std::to_string(number), number <= std::uint64_t{INT64_MAX}, static_cast<std::int64_t>(number)});
  }
  bool number_float(double number, const std::string& text) override {
    return in("cache") ? measured(number) : value({text});
  }
  bool string(std::string& text) override {
    if (!in("cache")) return value({text});
    if (depth_ == 3 && key_[3] == "time") return failed(text);
    if (depth_ == 3 && key_[3] == "timestamp" && file.timestamp.empty()) file.timestamp = text;
    return true;
  }
  bool binary(json::binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    if (depth_ == 2 && in("cache")) {
      row_ = {key_[2], {}};
      implausible_sample_.reset();
    }
    ++depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ < key_.size()) key_[depth_].swap(name);
    return true;
  }
  bool end_object() override {
    if (depth_ == 3 && in("cache") && !commit()) return false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  // The end of an open file is no error once it is inside the cache.
  bool parse_error(std::size_t position, const std::string&, const json::exception& failure) override {
    if (position < size_ || depth_ < 1 || !in("cache")) error = json_error_text(failure);
    return false;
  }

 private:
  bool in(std::string_view section) const { return key_[1] == section; }

  bool value(PythonValue found) {
    if (depth_ == 1 && in("device_name")) file.device_name = found.text;
    if (depth_ == 1 && in("kernel_name")) file.kernel_name = found.text;
    if ((depth_ == 1 || depth_ == 2) && in("problem_size")) file.problem_size.push_back(found.text);
    if (depth_ == 2 && in("tune_params_keys")) return add_key(std::move(found.text));
    if (depth_ == 3 && in("tune_params")) return add_value(std::move(found));
    return true;
  }

  bool add_key(std::string name) {
    if (file.keys.size() == kMaxParameters)
      return fail("more than " + std::to_string(kMaxParameters) + " parameters");
    if (std::find(file.keys.begin(), file.keys.end(), name) != file.keys.end())
      return fail("tune_params_keys has '" + name + "' twice");
    file.keys.push_back(std::move(name));
    return true;
  }

  bool add_value(PythonValue found) {
    const std::string& name = key_[2];
    if (file.domains.size() > kMaxParameters) return fail("more than 128 parameters in tune_params");
    std::vector<PythonValue>& domain = file.domains[name];
    if (domain.size() == kMaxDomain) return fail("'" + name + "' has more than 65536 values");
    if (!seen_[name].insert(found.text).second)
      return fail("'" + name + "' has the value " + found.text + " twice");
    domain.push_back(std::move(found));
    return true;
  }

  bool measured(double milliseconds) {
    const auto microseconds = static_cast<float>(milliseconds * 1000);
    if (depth_ == 4 && key_[3] == "times" && !is_plausible_time(milliseconds * 1000))
      implausible_sample_ = milliseconds;
    if (depth_ == 4 && key_[3] == "times") row_.trial.samples_us.push_back(microseconds);
    if (depth_ != 3 || key_[3] != "time") return true;
    if (milliseconds < 0) return refuse(format("a time of %g ms", milliseconds));
    if (milliseconds > 0 && milliseconds < kErrorTime) {
      if (!is_plausible_time(milliseconds * 1000)) return refuse(format("a time of %g ms", milliseconds));
      row_.trial.time_us = microseconds;
    } else {
      row_.trial.outcome = Outcome::launch_failed;
      row_.trial.message = "recorded without a time";
    }
    return true;
  }

  bool failed(const std::string& name) {
    row_.trial.outcome = outcome_of_error(name);
    row_.trial.message = name;
    return true;
  }

  bool refuse(const std::string& what) { return fail("the row '" + row_.key + "' has " + what); }

  bool fail(std::string why) {
    error = std::move(why);
    return false;
  }

  bool commit() {
    if (row_.trial.outcome == Outcome::ok && row_.trial.time_us <= 0) {
      row_.trial.outcome = Outcome::launch_failed;
      row_.trial.message = "recorded without a time";
    }
    if (row_.trial.outcome != Outcome::ok) row_.trial.samples_us.clear();
    if (row_.trial.outcome == Outcome::ok && implausible_sample_)
      return refuse(format("a sample of %g ms", *implausible_sample_));
    if (file.rows.size() == kMaxRows) return fail("more than " + std::to_string(kMaxRows) + " rows");
    file.rows.push_back(std::move(row_));
    return true;
  }

  std::size_t size_;
  std::size_t depth_ = 0;
  std::array<std::string, 4> key_;  // the current key of each depth
  CacheRow row_;
  std::map<std::string, std::unordered_set<std::string>> seen_;  // the values of each domain
  std::optional<double> implausible_sample_;                     // of the row, milliseconds
};

std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> pieces(1);
  for (const char c : key) {
    if (c == ',') {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

// A domain of integers, or of names where one value is not an integer.
Parameter make_parameter(const std::string& name, const std::vector<PythonValue>& values) {
  const bool integers =
      std::all_of(values.begin(), values.end(), [](const PythonValue& value) { return value.is_integer; });
  Parameter parameter{name, {}, ""};
  for (const PythonValue& value : values) {
    const auto position = static_cast<std::int64_t>(parameter.values.size());
    parameter.values.push_back(integers ? Value::integer(value.number)
                                        : Value::named(value.text.empty() ? "''" : value.text, position));
  }
  return parameter;
}

using Domains = std::vector<std::unordered_map<std::string, Position>>;

std::vector<Parameter> make_parameters(const CacheFile& cache, std::string_view file, Domains& positions) {
  std::vector<Parameter> parameters;
  for (const std::string& name : cache.keys) {
    const auto domain = cache.domains.find(name);
    if (domain == cache.domains.end() || domain->second.empty()) {
      throw BadInput(std::string(file) + ": tune_params has no values for '" + name + "'");
    }
    std::unordered_map<std::string, Position>& position_of = positions.emplace_back();
    for (const PythonValue& value : domain->second)
      position_of.emplace(value.text, static_cast<Position>(position_of.size()));
    parameters.push_back(make_parameter(name, domain->second));
  }
  return parameters;
}

std::vector<Position> point_of(const std::string& key, const CacheFile& cache, const Domains& positions,
                               std::string_view file) {
  const std::vector<std::string> pieces = split_key(key);
  if (pieces.size() != cache.keys.size()) {
    throw BadInput(std::string(file) + ": the cache key '" + key + "' has " + std::to_string(pieces.size()) +
                   " values for " + std::to_string(cache.keys.size()) + " parameters");
  }
  std::vector<Position> point;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const auto position = positions[p].find(pieces[p]);
    if (position == positions[p].end()) {
      throw BadInput(std::string(file) + ": the cache key '" + key + "' gives '" + cache.keys[p] +
                     "' the value '" + pieces[p] + "', which tune_params does not have");
    }
    point.push_back(position->second);
  }
  return point;
}

// A size may be text, a tuple as Python prints it: "(4096, 128)". The result is one name=value all the same.
std::string size_text(const std::string& size) {
  std::string text;
  for (const char c : size) {
    if (c == ',') {
      text += 'x';
    } else if (std::string_view("()[] '=").find(c) == std::string_view::npos) {
      text += c;
    }
  }
  return text.ends_with('x') ? text.substr(0, text.size() - 1) : text;  // "(4096,)"
}

std::string problem_text(const std::vector<std::string>& sizes) {
  std::string text;
  for (const std::string& size : sizes) text += (text.empty() ? "problem_size=" : "x") + size_text(size);
  return text == "problem_size=" ? "" : text;
}

}  // namespace

Recording parse_kernel_tuner(std::string_view text, std::string_view file) {
  check_json_bounds(text, file);
  Handler handler(text.size());
  json::sax_parse(text, &handler);
  if (!handler.error.empty()) throw BadInput(std::string(file) + ": " + handler.error);
  CacheFile& cache = handler.file;
  if (cache.keys.empty())
    throw BadInput(std::string(file) + ": neither a moetune recording nor a Kernel Tuner cache");
  if (cache.rows.empty()) throw BadInput(std::string(file) + ": the cache holds no whole row");

  Domains positions;
  std::vector<Parameter> parameters = make_parameters(cache, file, positions);
  std::vector<RecordedRow> rows;
  rows.reserve(cache.rows.size());
  for (CacheRow& row : cache.rows)
    rows.push_back({point_of(row.key, cache, positions, file), std::move(row.trial)});
  SortedRows sorted = sort_rows(std::move(parameters), std::move(rows));

  HardwareKey hardware;
  hardware.name = cache.device_name;
  return {.hardware = hardware,
          .limits = {},
          .kernel = cache.kernel_name,
          .problem = problem_text(cache.problem_size),
          .source_digest = "",
          .toolchain = "",
          .recorded_at = cache.timestamp.substr(0, 10),
          .digest = digest(text),
          .space = std::move(sorted.space),
          .trials = std::move(sorted.trials)};
}

}  // namespace moetune
