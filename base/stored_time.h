// Checks the times that a file may claim. A constant; any thread.
#pragma once

namespace moetune {

// Whether so many microseconds can be the time of a launch: from a picosecond to eleven days. Not a NaN.
inline bool is_stored_time(double us) { return us >= 1e-6 && us <= 1e12; }

}  // namespace moetune
