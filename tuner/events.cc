#include "tuner/events.h"

#include <array>

#include "base/profiler_range.h"

namespace moetune {
namespace {

void show_to_profiler(const PhaseChanged& change) { name_phase(phase_name(change.phase).data()); }
void show_to_profiler(const Finished&) { name_phase(nullptr); }
template <typename Other>
void show_to_profiler(const Other&) {}

}  // namespace

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 7> kNames = {"preparing", "searching",   "duel",        "verifying",
                                                             "storing",   "calibrating", "benchmarking"};
  return kNames.at(static_cast<std::size_t>(phase));
}

std::string_view warning_name(WarningKind kind) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "cache",        "nothing_compiled", "other_sources", "no_ceilings",        "contended_winner", "history_left_out",
      "other_timing", "recorded_timing",  "unusual_time",  "provisional_winner", "proposer",         "waiting"};
  return kNames.at(static_cast<std::size_t>(kind));
}

template <typename What>
void Events::emit(const What& what) const {
  show_to_profiler(what);
  if (listener) listener(Event{job, what});
}

template void Events::emit(const DeviceChosen&) const;
template void Events::emit(const PhaseChanged&) const;
template void Events::emit(const SearchStarted&) const;
template void Events::emit(const TrialBegun&) const;
template void Events::emit(const TrialEnded&) const;
template void Events::emit(const GpuDisturbed&) const;
template void Events::emit(const GpuQuiet&) const;
template void Events::emit(const GpuContended&) const;
template void Events::emit(const SearchEnded&) const;
template void Events::emit(const RangeAdvanced&) const;
template void Events::emit(const CeilingMeasured&) const;
template void Events::emit(const Warning&) const;
template void Events::emit(const Finished&) const;

}  // namespace moetune
