// Reads fields of a job's document, which may come from a service: a field that is missing, or of another type, reads
// as 0, "", false or an empty document. Pure functions; thread-safe; no errors.
#pragma once

#include <string>

#include "jobs/documents.h"

namespace moetune {

inline const Document& field(const Document& document, const char* name) {
  static const Document kNothing;
  const auto found = document.find(name);
  return found == document.end() ? kNothing : *found;
}
inline double figure_field(const Document& document, const char* name) {
  const Document& value = field(document, name);
  return value.is_number() ? value.get<double>() : 0;
}
inline std::size_t count_field(const Document& document, const char* name) {
  const Document& value = field(document, name);
  const bool is_count = value.is_number_unsigned() || (value.is_number_integer() && value > 0);
  return is_count ? value.get<std::size_t>() : 0;
}
inline bool flag_field(const Document& document, const char* name) { return field(document, name) == true; }
inline std::string text_field(const Document& document, const char* name) {
  const Document& value = field(document, name);
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace moetune
