#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/lists.h"
#include "replay/configured_rows.h"
#include "replay/result_readers.h"

namespace moetune {
namespace {

constexpr std::size_t kMostTried = 500'000'000;  // bytes, of a file whose keys hold more commas than parameters

constexpr std::array kErrorNames = {
    OutcomeName{"CompilationFailedConfig", Outcome::compile_failed}, OutcomeName{"InvalidConfig", Outcome::pruned},
    OutcomeName{"IncorrectResult", Outcome::wrong_result}, OutcomeName{"RuntimeFailedConfig", Outcome::launch_failed},
    OutcomeName{"ErrorConfig", Outcome::launch_failed}};

std::string_view first_step(std::string_view path) { return path.substr(0, path.find(kPathMark)); }

std::size_t step_count(std::string_view path) {
  return 1 + static_cast<std::size_t>(std::count(path.begin(), path.end(), kPathMark));
}

class CacheReader {
 public:
  CacheReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  ResultFile read(const std::string& wanted);

 private:
  void read_header();
  void take_header(JsonField&& field);
  void take_objective(const JsonField& field);
  void take_figures(const JsonRow& row);
  void make_domains();
  void take_row(const JsonRow& row);
  FigureRow judged(const JsonRow& row) const;
  std::vector<Position> point_of(const JsonRow& row);
  std::vector<Position> point_of_key(const std::string& key);
  // How many ways there are to read the key from `begin` on as the values of the parameters from `at` on: up to two.
  int ways_to_read(std::string_view key, std::size_t begin, std::vector<Position>& so_far,
                   std::vector<Position>& found);

  [[noreturn]] void fail(const std::string& why) const { throw BadInput(std::string(file_) + ": " + why); }
  std::string key_named(std::string_view key) const { return "the cache key '" + brief_name(key) + "'"; }

  std::string_view text_, file_;
  ResultFile found_;
  StatedObjectives stated_;
  std::vector<std::optional<bool>> larger_;  // as the objectives
  std::vector<std::string> sizes_, names_;
  std::vector<JsonField> values_;  // below tune_params
  std::vector<ResultDomain> domains_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<FigureRow> rows_;
  std::size_t tried_ = 0;
};

void CacheReader::take_objective(const JsonField& field) {
  if (field.kind != JsonField::Kind::text || field.text.empty()) return;
  if (std::find(stated_.names.begin(), stated_.names.end(), field.text) != stated_.names.end()) return;
  if (stated_.names.size() == StatedObjectives::kMost) fail("it has more than 1024 objectives");
  stated_.names.push_back(field.text);
}

void CacheReader::take_header(JsonField&& field) {
  const std::string top(first_step(field.path));
  const std::size_t steps = step_count(field.path);
  if (steps == 1 && top == "device_name") found_.device = field.text;
  if (steps == 1 && top == "kernel_name") found_.kernel = field.text;
  if (steps <= 2 && top == "problem_size" && sizes_.size() < kMostParameters) sizes_.push_back(field.text);
  if (steps <= 2 && top == "objective") take_objective(field);
  if (steps <= 2 && top == "objective_higher_is_better" && larger_.size() < StatedObjectives::kMost)
    larger_.push_back(field.kind == JsonField::Kind::boolean ? std::optional(field.text == "True") : std::nullopt);
  if (steps == 2 && top == "tune_params_keys") {
    if (names_.size() == kMostParameters) fail("more than " + std::to_string(kMostParameters) + " parameters");
    if (!index_.emplace(field.text, names_.size()).second)
      fail("tune_params_keys has '" + brief_name(field.text) + "' twice");
    names_.push_back(std::move(field.text));
  } else if (steps >= 3 && top == "tune_params") {
    values_.push_back(std::move(field));
  }
}

// Takes every number beside the parameters as a figure of the rows.
void CacheReader::take_figures(const JsonRow& row) {
  for (const JsonField& field : row.fields) {
    if (field.is_number() && field.path.find(kPathMark) == std::string::npos &&
        stated_.units.size() < StatedObjectives::kMost)
      stated_.units.emplace(field.path, "");
  }
}

void CacheReader::read_header() {
  read_json_rows(text_, file_,
                 {[&](JsonField&& field) { take_header(std::move(field)); }, [&](JsonRow& row) { take_figures(row); }});
  if (names_.empty()) fail("neither a moetune recording nor a Kernel Tuner cache: it has no tune_params_keys");
  for (const std::string& name : names_) stated_.units.erase(name);
  if (stated_.names.empty()) stated_.names.push_back("time");
  // A file whose every row failed has no times; of another objective that no row has, the search would say nothing.
  if (stated_.names.front() == "time") stated_.units.emplace("time", "");
  if (const auto time = stated_.units.find("time"); time != stated_.units.end()) time->second = "ms";
  for (std::size_t i = 0; i < std::min(stated_.names.size(), larger_.size()); ++i)
    if (larger_[i]) stated_.larger_is_better[stated_.names[i]] = *larger_[i];
}

void CacheReader::make_domains() {
  domains_.resize(names_.size());
  for (NamedValue& one : values_of(values_, 3)) {
    const std::size_t begin = one.path.find(kPathMark) + 1;
    const std::string name = one.path.substr(begin, one.path.rfind(kPathMark) - begin);
    const auto known = index_.find(name);
    if (known == index_.end()) continue;
    ResultDomain& domain = domains_[known->second];
    if (domain.size() == ResultDomain::kMostValues) fail("'" + name + "' has more than 65536 values");
    const std::string text = one.value.text;
    if (!domain.add(std::move(one.value))) fail("'" + name + "' has the value " + brief_name(text) + " twice");
  }
  values_.clear();
  for (std::size_t p = 0; p < names_.size(); ++p) {
    if (domains_[p].size() == 0) fail("tune_params has no values for '" + names_[p] + "'");
    domains_[p].seal(false);
    found_.parameters.push_back(domains_[p].parameter(names_[p], file_));
  }
}

int CacheReader::ways_to_read(std::string_view key, std::size_t begin, std::vector<Position>& so_far,
                              std::vector<Position>& found) {
  if (so_far.size() == domains_.size()) {
    if (begin <= key.size()) return 0;
    found = so_far;
    return 1;
  }
  int ways = 0;
  for (std::size_t end = begin; begin <= key.size() && end < key.size() + 1 && ways < 2;) {
    end = std::min(key.find(',', end), key.size());
    tried_ += 64 + end - begin;
    if (tried_ > kMostTried) fail("its keys hold too many commas to be told apart; let each row name its values");
    const auto position = domains_[so_far.size()].find(value_of_text(key.substr(begin, end - begin)));
    ++end;
    if (!position) continue;
    so_far.push_back(*position);
    ways += ways_to_read(key, end, so_far, found);
    so_far.pop_back();
  }
  return std::min(ways, 2);
}

std::vector<Position> CacheReader::point_of_key(const std::string& key) {
  const std::vector<std::string_view> pieces = split(key, ',');
  std::vector<Position> point;
  if (pieces.size() == names_.size()) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const std::optional<Position> position = domains_[p].find(value_of_text(pieces[p]));
      if (!position)
        fail(key_named(key) + " gives '" + names_[p] + "' the value '" + brief_name(pieces[p]) +
             "', which tune_params does not have");
      point.push_back(*position);
    }
    return point;
  }
  std::vector<Position> so_far;
  const int ways = pieces.size() > names_.size() ? ways_to_read(key, 0, so_far, point) : 0;
  if (ways == 1) return point;
  fail(key_named(key) + " has " + std::to_string(pieces.size()) + " values for " + std::to_string(names_.size()) +
       " parameters" + (ways > 1 ? ", and can be read in several ways" : ""));
}

// By the values that the row itself names, else by its key.
std::vector<Position> CacheReader::point_of(const JsonRow& row) {
  std::vector<JsonField> named;
  for (const JsonField& field : row.fields) {
    if (index_.contains(std::string(first_step(field.path)))) named.push_back(field);
  }
  std::vector<std::optional<Position>> positions(names_.size());
  for (const NamedValue& one : values_of(named, 1)) {
    const std::size_t p = index_.at(one.path);
    positions[p] = domains_[p].find(one.value);
  }
  std::vector<Position> point;
  for (const std::optional<Position>& position : positions) {
    if (!position) return point_of_key(row.key);
    point.push_back(*position);
  }
  return point;
}

FigureRow CacheReader::judged(const JsonRow& row) const {
  FigureRow judged;
  RecordedTrial& trial = judged.row.trial;
  const bool is_time = found_.objective.name == "time";
  std::optional<double> figure;
  std::vector<double> samples;
  const auto fail_as = [&](const std::string& name) {
    if (trial.outcome != Outcome::ok) return;
    trial.outcome = outcome_named(name, kErrorNames).value_or(Outcome::launch_failed);
    trial.message = name;
  };
  for (const JsonField& field : row.fields) {
    const std::string_view top = first_step(field.path);
    const bool alone = top.size() == field.path.size();
    const bool is_text = field.kind == JsonField::Kind::text;
    if (top == "__error__" && field.kind != JsonField::Kind::null) fail_as(is_text && alone ? field.text : "failed");
    if (is_text && alone && (outcome_named(field.text, kErrorNames) || top == found_.objective.name))
      fail_as(field.text);
    if (alone && top == found_.objective.name && field.is_number()) figure = field.number;
    if (is_time && top == "times" && step_count(field.path) == 2 && field.is_number())
      samples.push_back(field.number * 1e3);
  }
  if (trial.outcome != Outcome::ok) return judged;
  if (figure) {
    take_figure(judged, is_time && found_.objective.is_time() ? *figure * 1e3 : *figure, std::move(samples),
                found_.objective, std::string(file_) + ": the row '" + brief_name(row.key) + "'");
  } else {
    trial.outcome = Outcome::launch_failed;
    trial.message = "recorded without a " + brief_name(found_.objective.name);
  }
  return judged;
}

void CacheReader::take_row(const JsonRow& row) {
  if (rows_.size() == kMostRows) fail("more than " + std::to_string(kMostRows) + " rows");
  if (found_.recorded_at.empty()) {
    for (const JsonField& field : row.fields) {
      if (field.path == "timestamp") found_.recorded_at = date_of(field.text);
    }
  }
  FigureRow next = judged(row);
  next.row.point = point_of(row);
  rows_.push_back(std::move(next));
}

ResultFile CacheReader::read(const std::string& wanted) {
  read_header();
  found_.objective = choose_objective(wanted, stated_, file_);
  make_domains();
  found_.problem = problem_of_sizes(sizes_);
  read_json_rows(text_, file_, {{}, [&](JsonRow& row) { take_row(row); }});
  if (rows_.empty()) fail("the cache holds no whole row");
  found_.rows = std::move(rows_);
  return std::move(found_);
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

}  // namespace

std::string problem_of_sizes(const std::vector<std::string>& sizes) {
  std::string text;
  for (const std::string& size : sizes) text += (text.empty() ? "problem_size=" : "x") + size_text(size);
  return text == "problem_size=" ? "" : text;
}

ResultFile read_kernel_tuner(std::string_view text, std::string_view file, const std::string& objective) {
  return CacheReader(text, file).read(objective);
}

}  // namespace moetune
