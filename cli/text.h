// Numbers and tables as people read them. Pure functions and a plain value type; no errors, no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/format.h"

namespace moetune {

std::string time_text(double microseconds);          // "9.21 µs", "1.24 ms"; "-" where there is none
std::string bytes_text(double bytes);                // "512 MiB"
std::string count_text(double count);                // "10,000,000", "2.4e+19"
std::string rate_text(double terabytes_per_second);  // "4.21 TB/s"
std::string percent_text(double fraction);           // "89.6%"
std::string duration_text(double seconds);           // "0:08", "1:02:11"

// How many of the device's own programs (references and harness) had to be compiled.
std::string programs_text(std::size_t compiled);

// The columns a text takes on a terminal (UTF-8, no double-width characters).
std::size_t display_width(const std::string& text);
// Cut to `columns`, with "…" at the end where something was cut.
std::string fit(const std::string& text, std::size_t columns);

// Left-aligned columns, two spaces apart; columns named in `right` are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::vector<std::size_t> right = {});
  void add(std::vector<std::string> row);
  std::string text(const std::string& indent = "") const;  // ends with a newline

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first; an empty header prints none
  std::vector<std::size_t> right_;
};

}  // namespace moetune
