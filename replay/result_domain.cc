#include "replay/result_domain.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/lists.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr double kSameFloat = 1e-6;  // relative: eight times what a 32-bit float rounds by
constexpr std::size_t kLongestValue = 4096;

std::string_view first_steps(std::string_view path, std::size_t steps) {
  std::size_t end = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    end = path.find(kPathMark, step == 0 ? 0 : end + 1);
    if (end == std::string_view::npos) return path;
  }
  return path.substr(0, end);
}

// Integers that are too large are texts: as numbers, many of them would be equal.
FoundValue value_of(std::string_view text, bool may_be_number) {
  FoundValue value{.text = std::string(text), .as_list = {}, .integer = {}, .number = {}};
  if (!may_be_number) return value;
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  double number = 0;
  const auto as_integer = std::from_chars(text.data(), end, integer);
  if (as_integer.ec == std::errc() && as_integer.ptr == end) value.integer = integer;
  const auto as_number = std::from_chars(text.data(), end, number);
  const bool is_real = text.find_first_of(".eE") != std::string_view::npos && std::isfinite(number);
  if (as_number.ec == std::errc() && as_number.ptr == end && (value.integer || is_real)) value.number = number;
  return value;
}

FoundValue value_of_list(std::span<const JsonField> elements) {
  const std::string inside = joined(elements, ", ", [](const JsonField& element) {
    return element.kind == JsonField::Kind::text ? "'" + element.text + "'" : element.text;
  });
  return {.text = "(" + inside + (elements.size() == 1 ? ",)" : ")"),
          .as_list = "[" + inside + "]",
          .integer = {},
          .number = {}};
}

// The one within rounding; nullopt if there is none, or another beside it.
std::optional<Position> nearly_equal(const std::vector<std::pair<double, Position>>& numbers, double wanted) {
  const double tolerance = kSameFloat * std::abs(wanted);
  const auto from = std::lower_bound(numbers.begin(), numbers.end(), wanted - tolerance,
                                     [](const auto& one, double least) { return one.first < least; });
  if (from == numbers.end() || from->first > wanted + tolerance) return std::nullopt;
  const auto next = std::next(from);
  if (next != numbers.end() && next->first <= wanted + tolerance) return std::nullopt;
  return from->second;
}

std::string shown(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ' && result.ends_with(';')) continue;
    result += c == ',' ? ';' : c;
  }
  return result.empty() ? "''" : result;
}

}  // namespace

std::vector<NamedValue> values_of(std::span<const JsonField> fields, std::size_t steps) {
  std::vector<NamedValue> values;
  for (std::size_t begin = 0; begin < fields.size();) {
    const std::string_view path = first_steps(fields[begin].path, steps);
    std::size_t end = begin + 1;
    while (end < fields.size() && first_steps(fields[end].path, steps) == path) ++end;
    const bool is_list = path.size() < fields[begin].path.size();
    values.push_back({std::string(path), is_list ? value_of_list(fields.subspan(begin, end - begin))
                                                 : value_of(fields[end - 1].text, fields[end - 1].is_number())});
    begin = end;
  }
  return values;
}

std::string brief_name(std::string_view name) { return shortened(name, 100); }

FoundValue value_of_text(std::string_view text) { return value_of(text, true); }

bool ResultDomain::add(FoundValue value) {
  if (!by_text_.emplace(value.text, static_cast<Position>(values_.size())).second) return false;
  values_.push_back(std::move(value));
  return true;
}

bool ResultDomain::all_integers() const {
  return std::all_of(values_.begin(), values_.end(), [](const FoundValue& value) { return value.integer.has_value(); });
}

void ResultDomain::seal(bool ascending) {
  if (ascending && all_integers()) {
    std::ranges::sort(values_, [](const FoundValue& a, const FoundValue& b) { return *a.integer < *b.integer; });
  }
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto position = static_cast<Position>(i);
    by_text_[values_[i].text] = position;
    if (!values_[i].as_list.empty()) by_text_.emplace(values_[i].as_list, position);
    if (!values_[i].number) continue;
    numbers_.emplace_back(*values_[i].number, position);
    if (!values_[i].integer) reals_.emplace_back(*values_[i].number, position);
  }
  std::sort(numbers_.begin(), numbers_.end());
  std::sort(reals_.begin(), reals_.end());
}

std::optional<Position> ResultDomain::find(const FoundValue& value) const {
  const auto found = by_text_.find(value.text);
  if (found != by_text_.end()) return found->second;
  if (!value.number) return std::nullopt;
  return nearly_equal(value.integer ? reals_ : numbers_, *value.number);
}

Parameter ResultDomain::parameter(const std::string& name, std::string_view file) const {
  const bool integers = all_integers();
  Parameter parameter{name, {}, ""};
  std::set<std::string> texts;
  for (const FoundValue& value : values_) {
    if (value.text.size() > kLongestValue)
      throw BadInput(std::string(file) + ": a value of '" + name + "' is longer than 4096 characters");
    const auto position = static_cast<std::int64_t>(parameter.values.size());
    parameter.values.push_back(integers ? Value::integer(*value.integer) : Value::named(shown(value.text), position));
    if (!texts.insert(parameter.values.back().text()).second) {
      throw BadInput(std::string(file) + ": two values of '" + name + "' both read as '" +
                     parameter.values.back().text() + "', with semicolons for commas");
    }
  }
  return parameter;
}

}  // namespace moetune
