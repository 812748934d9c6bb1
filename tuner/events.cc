#include "tuner/events.h"

namespace moetune {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::preparing:
      return "preparing";
    case Phase::searching:
      return "searching";
    case Phase::duel:
      return "duel";
    case Phase::verifying:
      return "verifying";
    case Phase::storing:
      return "storing";
    case Phase::calibrating:
      return "calibrating";
    case Phase::benchmarking:
      return "benchmarking";
  }
  return "";
}

std::string_view warning_name(WarningKind kind) {
  switch (kind) {
    case WarningKind::cache:
      return "cache";
    case WarningKind::nothing_compiled:
      return "nothing_compiled";
    case WarningKind::other_sources:
      return "other_sources";
    case WarningKind::no_ceilings:
      return "no_ceilings";
    case WarningKind::contended_winner:
      return "contended_winner";
    case WarningKind::history_left_out:
      return "history_left_out";
    case WarningKind::other_timing:
      return "other_timing";
    case WarningKind::recorded_timing:
      return "recorded_timing";
    case WarningKind::unusual_time:
      return "unusual_time";
    case WarningKind::proposer:
      return "proposer";
    case WarningKind::waiting:
      return "waiting";
    case WarningKind::provisional_winner:
      return "provisional_winner";
  }
  return "";
}

}  // namespace moetune
