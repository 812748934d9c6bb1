#include "search/outcome.h"

namespace moetune {

std::string_view outcome_name(Outcome outcome) {
  static constexpr std::array<std::string_view, kOutcomes.size()> kNames = {
      "ok",        "pruned",  "compile_failed", "launch_failed", "wrong_result",
      "timed_out", "crashed", "too_slow",       "out_of_memory", "implausible"};
  const auto at = static_cast<std::size_t>(outcome);
  return at < kNames.size() ? kNames[at] : "unknown";
}

std::optional<Outcome> outcome_from_name(std::string_view name) {
  for (const Outcome outcome : kOutcomes) {
    if (outcome_name(outcome) == name) return outcome;
  }
  return std::nullopt;
}

}  // namespace moetune
