#include "kernels/problem.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/integers.h"
#include "base/suggest.h"

namespace moetune {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Value parse_integer(std::string_view kernel, const Dimension& dimension, std::string_view text) {
  const auto refuse = [&](const char* what) {
    throw BadInput(std::string(kernel) + ": " + dimension.name + "=" + std::string(text) + what + " (an integer from " +
                   std::to_string(dimension.minimum) + " to " + std::to_string(dimension.maximum) + ")");
  };
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::optional<std::int64_t> unit = unit_of_suffix(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error == std::errc::invalid_argument || !unit) refuse(" is not an integer");
  if (error == std::errc::result_out_of_range || number > dimension.maximum / *unit ||
      number < dimension.minimum / *unit || number * *unit < dimension.minimum)
    refuse(" is out of range");
  return Value::integer(number * *unit);
}

Value parse_choice(std::string_view kernel, const Dimension& dimension, std::string_view text) {
  const auto found = std::find(dimension.names.begin(), dimension.names.end(), text);
  if (found == dimension.names.end()) {
    throw BadInput(std::string(kernel) + ": " + dimension.name + "=" + std::string(text) +
                   " is not a choice; it takes one of " + join(dimension.names));
  }
  return Value::named(text, found - dimension.names.begin());
}

Value parse_value(std::string_view kernel, const Dimension& dimension, std::string_view text) {
  return dimension.names.empty() ? parse_integer(kernel, dimension, text) : parse_choice(kernel, dimension, text);
}

const Dimension& find_dimension(std::string_view kernel, const ProblemSchema& schema, const std::string& name) {
  const auto found =
      std::find_if(schema.begin(), schema.end(), [&](const Dimension& dimension) { return dimension.name == name; });
  if (found != schema.end()) return *found;
  std::vector<std::string> names;
  for (const Dimension& dimension : schema) names.push_back(dimension.name);
  throw BadInput(unknown_name("dimension of " + std::string(kernel), name, names));
}

// Parses canonical text, every dimension in schema order, as stored problems are written. nullopt for any other text,
// right or wrong.
std::optional<Assignment> parse_canonical(std::string_view kernel, const ProblemSchema& schema, std::string_view text) {
  Assignment dims;
  dims.reserve(schema.size());
  for (const Dimension& dimension : schema) {
    if (!text.starts_with(dimension.name) || !text.substr(dimension.name.size()).starts_with('=')) return std::nullopt;
    text.remove_prefix(dimension.name.size() + 1);
    const std::string_view value = text.substr(0, text.find(','));
    if (value.empty() || value.find('=') != value.npos) return std::nullopt;
    dims.append(dimension.name, parse_value(kernel, dimension, value));
    text.remove_prefix(value.size());
    const bool is_last = &dimension == &schema.back();
    if (is_last != text.empty()) return std::nullopt;
    if (!is_last) text.remove_prefix(1);
  }
  return dims;
}

}  // namespace

Dimension integer_dimension(std::string name, std::string doc, std::int64_t default_value, std::int64_t minimum,
                            std::int64_t maximum) {
  return {std::move(name), std::move(doc), Value::integer(default_value), minimum, maximum, {}};
}

Dimension named_dimension(std::string name, std::string doc, std::vector<std::string> names) {
  const Value default_value = Value::named(names.front(), 0);
  return {std::move(name), std::move(doc), default_value, 0, 0, std::move(names)};
}

Problem parse_problem(std::string_view kernel, const ProblemSchema& schema, const Preset* preset,
                      std::string_view text) {
  Problem problem{std::string(kernel), {}};
  if (preset == nullptr && !schema.empty()) {
    if (std::optional<Assignment> dims = parse_canonical(kernel, schema, text)) {
      problem.dims = *std::move(dims);
      return problem;
    }
  }
  for (const Dimension& dimension : schema) problem.dims.set(dimension.name, dimension.default_value);
  const auto apply = [&](const std::vector<std::pair<std::string, std::string>>& pairs) {
    for (const auto& [name, value] : pairs) {
      if (value.find('=') != std::string::npos) {
        throw BadInput(std::string(kernel) + ": '" + name + "=" + value +
                       "' is more than one dimension; separate them with commas: a=1,b=2");
      }
      problem.dims.set(name, parse_value(kernel, find_dimension(kernel, schema, name), value));
    }
  };
  if (preset != nullptr) apply(preset->dims);
  if (!text.empty()) apply(split_assignment(text, kernel));
  return problem;
}

void require_one_of(const Problem& problem, const std::string& name, const std::vector<std::int64_t>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), problem[name]) != allowed.end()) return;
  std::string list;
  for (const std::int64_t value : allowed) list += (list.empty() ? "" : ", ") + std::to_string(value);
  throw BadInput(problem.kernel + ": " + name + "=" + std::to_string(problem[name]) +
                 " is not supported; it takes one of " + list);
}

void check_range(std::string_view kernel, const ProblemSchema& schema, const std::string& name, std::int64_t first,
                 std::int64_t last) {
  const Dimension& dimension = find_dimension(kernel, schema, name);
  if (first >= dimension.minimum && last <= dimension.maximum) return;
  throw BadInput(name + " of " + std::string(kernel) + " must lie from " + std::to_string(dimension.minimum) + " to " +
                 std::to_string(dimension.maximum) + " (got " + std::to_string(first) + ".." + std::to_string(last) +
                 ")");
}

}  // namespace moetune
