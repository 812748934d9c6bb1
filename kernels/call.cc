#include "kernels/call.h"

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

}  // namespace

void set_field(Call& call, const CallSchema& schema, std::string_view name, double value) {
  if (const auto integer = position_of(schema.integers, name)) {
    call.integers[*integer] = static_cast<std::int64_t>(value);
  } else if (const auto real = position_of(schema.reals, name)) {
    call.reals[*real] = value;
  } else {
    unknown_field(schema, name);
  }
}

std::int64_t integer_field(const Call& call, const CallSchema& schema, std::string_view name) {
  const auto position = position_of(schema.integers, name);
  if (!position) unknown_field(schema, name);
  return call.integers[*position];
}

}  // namespace moetune
