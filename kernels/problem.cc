#include "kernels/problem.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
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
    throw BadInput(std::string(kernel) + ": " + dimension.name + "=" + std::string(text) + what +
                   " (an integer from " + std::to_string(dimension.minimum) + " to " +
                   std::to_string(dimension.maximum) + ")");
  };
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) refuse(" is not an integer");
  if (error == std::errc::result_out_of_range || number < dimension.minimum || number > dimension.maximum)
    refuse(" is out of range");
  return Value::integer(number);
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
  return dimension.names.empty() ? parse_integer(kernel, dimension, text)
                                 : parse_choice(kernel, dimension, text);
}

const Dimension& find_dimension(std::string_view kernel, const ProblemSchema& schema,
                                const std::string& name) {
  const auto found = std::find_if(schema.begin(), schema.end(),
                                  [&](const Dimension& dimension) { return dimension.name == name; });
  if (found != schema.end()) return *found;
  std::vector<std::string> names;
  for (const Dimension& dimension : schema) names.push_back(dimension.name);
  throw BadInput(unknown_name("dimension of " + std::string(kernel), name, names));
}

}  // namespace

Problem parse_problem(std::string_view kernel, const ProblemSchema& schema, const Preset* preset,
                      std::string_view text) {
  Problem problem{std::string(kernel), {}};
  for (const Dimension& dimension : schema) problem.dims.set(dimension.name, dimension.fallback);
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

}  // namespace moetune
