#include "retune/deadline.h"

#include <cstdio>
#include <ctime>

#include "base/error.h"

namespace moetune {

std::int64_t next_time(const std::string& clock, std::int64_t now) {
  int hour = 0, minute = 0, read = 0;
  const bool matches = std::sscanf(clock.c_str(), "%2d:%2d%n", &hour, &minute, &read) == 2 &&
                       read == static_cast<int>(clock.size()) &&
                       clock.find_first_not_of("0123456789:") == std::string::npos;
  if (!matches || hour > 23 || minute > 59)
    throw BadInput("must be a time of day, such as 06:00 (got '" + clock + "')");
  const std::time_t begin = now;
  std::tm parts = {};
  localtime_r(&begin, &parts);
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = 0;
  parts.tm_isdst = -1;
  std::int64_t end = std::mktime(&parts);
  if (end <= now) {
    ++parts.tm_mday;
    parts.tm_isdst = -1;
    end = std::mktime(&parts);
  }
  return end;
}

}  // namespace moetune
