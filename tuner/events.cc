#include "tuner/events.h"

#include <array>

#include "base/profiler_range.h"

namespace moetune {

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 7> kNames = {"preparing", "searching",   "duel",        "verifying",
                                                             "storing",   "calibrating", "benchmarking"};
  return kNames.at(static_cast<std::size_t>(phase));
}

void show_to_profiler(const PhaseChanged& change) { name_phase(phase_name(change.phase).data()); }
void show_to_profiler(const Finished&) { name_phase(nullptr); }

std::string_view warning_name(WarningKind kind) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "cache",        "nothing_compiled", "other_sources", "no_ceilings",        "contended_winner", "history_left_out",
      "other_timing", "recorded_timing",  "unusual_time",  "provisional_winner", "proposer",         "waiting"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace moetune
