#include "kernels/call.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

std::optional<std::size_t> position_of(const std::vector<CallField>& fields, std::string_view name) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return std::nullopt;
}

[[noreturn]] void unknown_field(const CallSchema& schema, std::string_view name) {
  std::vector<std::string> names;
  for (const auto* fields : {&schema.integers, &schema.reals}) {
    for (const CallField& field : *fields) names.push_back(field.name);
  }
  throw BadInput(unknown_name("field of a call", std::string(name), names));
}

std::int64_t whole_number(std::string_view name, double value) {
  if (std::abs(value) <= 0x1p53 && value == std::trunc(value)) return static_cast<std::int64_t>(value);
  throw BadInput("a call's " + std::string(name) + " takes a whole number of at most 2^53, not " +
                 std::to_string(value));
}

}  // namespace

void set_field(Call& call, const CallSchema& schema, std::string_view name, double value) {
  if (const auto integer = position_of(schema.integers, name)) {
    call.integers[*integer] = whole_number(name, value);
  } else if (const auto real = position_of(schema.reals, name)) {
    call.reals[*real] = value;
  } else {
    unknown_field(schema, name);
  }
}

void set_assumption(Call& call, const CallSchema& schema, std::string_view kernel, std::string_view name) {
  std::vector<std::string> names;
  for (const CallField& field : schema.integers) {
    if (field.is_assumption) names.push_back(field.name);
  }
  if (names.empty()) throw BadField("assume", std::string(kernel) + " can assume nothing of its caller");
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw BadField("assume", unknown_name("assumption of " + std::string(kernel), name, names));
  call.integers[*position_of(schema.integers, name)] = 1;
}

}  // namespace moetune
