// How launches follow each other while they are timed: part of what a stored result is true of. Pure functions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

enum class Timing {
  chained,     // behind a small kernel that writes the fresh inputs, as in a server; its own time taken off
  overlapped,  // behind the launch before, into whose end it may reach
  alone,       // as above, each only once the launch before has ended
};

// In the order in which a server prefers results, which is that of the enumerators: as deployed first.
inline constexpr std::array kTimings = {Timing::chained, Timing::overlapped, Timing::alone};

std::string_view timing_name(Timing timing);  // "chained"
std::optional<Timing> timing_from_name(std::string_view name);

}  // namespace moetune
