// Reads fields of JSON that may come from elsewhere: a field that is missing, or of another type, reads as 0, "", false
// or null, and one of what is no object as missing. Pure functions; thread-safe; no errors.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace moetune {

template <typename Json>
const Json& field(const Json& json, const char* name) {
  static const Json kNothing;
  const auto found = json.find(name);
  return found == json.end() ? kNothing : *found;
}
template <typename Json>
double figure_field(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_number() ? value.template get<double>() : 0;
}
// A finite time above 0.
template <typename Json>
double time_field(const Json& json, const char* name) {
  const double time = figure_field(json, name);
  return std::isfinite(time) && time > 0 ? time : 0;
}
template <typename Json>
std::size_t count_field(const Json& json, const char* name) {
  const Json& value = field(json, name);
  const bool is_count = value.is_number_unsigned() || (value.is_number_integer() && value > 0);
  return is_count ? value.template get<std::size_t>() : 0;
}
template <typename Json>
bool flag_field(const Json& json, const char* name) {
  return field(json, name) == true;
}
template <typename Json>
std::string text_field(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_string() ? value.template get<std::string>() : "";
}

}  // namespace moetune
