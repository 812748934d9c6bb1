// The numbers of a recording, checked where they are read: a count of SMs of 0 or a time of -1 µs would
// otherwise surface far from the file it came from, as a division by zero or as the fastest of all. Not for
// headers that others include.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace moetune {

// Microseconds of one launch: below a clock's tick, or beyond three hours, nobody measured it.
inline constexpr double kLeastTime_us = 1e-3, kMostTime_us = 1e10;

inline bool is_plausible_time(double us) { return us >= kLeastTime_us && us <= kMostTime_us; }

// Reads numbers of one file. `what` says which one: "'sm_count' in limits", "the time of row 3". Throws
// BadInput that names the file for one that is no number, or is outside its range (least and most included).
class NumberReader {
 public:
  explicit NumberReader(std::string_view file) : file_(file) {}

  // No fraction, which the library would cut off, and no true or false.
  std::int64_t integer(const nlohmann::json& value, const std::string& what, std::int64_t least,
                       std::int64_t most) const {
    if (!value.is_number_integer()) fail(what + " is " + value.dump() + ", not an integer");
    const bool beyond = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
    if (beyond || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
      fail(what + " is " + value.dump() + ", not from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value.get<std::int64_t>();
  }

  double real(const nlohmann::json& value, const std::string& what, double least, double most) const {
    if (!value.is_number()) fail(what + " is " + value.dump() + ", not a number");
    const double number = value.get<double>();
    if (!(number >= least && number <= most))
      fail(what + " is " + value.dump() + format(", not from %g to %g", least, most));
    return number;
  }

  float time(const nlohmann::json& value, const std::string& what) const {
    return static_cast<float>(real(value, what, kLeastTime_us, kMostTime_us));
  }

  [[noreturn]] void fail(const std::string& why) const { throw BadInput(std::string(file_) + ": " + why); }

 private:
  std::string_view file_;
};

}  // namespace moetune
