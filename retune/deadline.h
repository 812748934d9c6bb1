// When a night ends. A pure function; the clock is the caller's.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

// The next time after `now` (seconds since 1970) at which the local clock shows "06:00". Throws BadInput.
std::int64_t next_time(const std::string& clock, std::int64_t now);

}  // namespace moetune
