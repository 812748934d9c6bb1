#include "search/outcome.h"

namespace moetune {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::pruned:
      return "pruned";
    case Outcome::compile_failed:
      return "compile_failed";
    case Outcome::launch_failed:
      return "launch_failed";
    case Outcome::wrong_result:
      return "wrong_result";
    case Outcome::timed_out:
      return "timed_out";
    case Outcome::crashed:
      return "crashed";
    case Outcome::too_slow:
      return "too_slow";
    case Outcome::out_of_memory:
      return "out_of_memory";
    case Outcome::implausible:
      return "implausible";
  }
  return "unknown";
}

std::optional<Outcome> outcome_from_name(std::string_view name) {
  for (const Outcome outcome : kOutcomes) {
    if (outcome_name(outcome) == name) return outcome;
  }
  return std::nullopt;
}

}  // namespace moetune
