#include "cli/record_rules.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/stored_results.h"
#include "cli/text.h"
#include "kernels/registry.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

bool is_time(double us) { return std::isfinite(us) && us > 0; }

bool is_time_or_unknown(double us) { return us == 0 || is_time(us); }

// Of a kernel that is not moetune's the values are whatever its recording wrote.
std::string wrong_config(const WorkloadKey& key, const std::string& config) {
  const std::vector<const Kernel*>& kernels = all_kernels();
  if (std::none_of(kernels.begin(), kernels.end(), [&](const Kernel* k) { return k->name() == key.kernel; }))
    return "";
  try {
    split_assignment(config, "its configuration");
    return config.empty() ? "its configuration is empty" : "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

std::string wrong_interval(double low_us, double high_us) {
  if (is_time(low_us) && is_time(high_us) && low_us <= high_us) return "";
  return format("its interval is %g to %g µs", low_us, high_us);
}

std::string wrong_json(const char* what, const std::string& text) {
  return parse_stored(text).is_object() ? "" : std::string("its ") + what + " cannot be read as JSON";
}

std::string first_wrong(std::initializer_list<std::string> sentences) {
  for (const std::string& sentence : sentences) {
    if (!sentence.empty()) return sentence;
  }
  return "";
}

std::string wrong_trial(const WorkloadKey& key, const TrialRecord& trial) {
  const std::optional<Outcome> outcome = outcome_from_name(trial.outcome);
  if (!outcome) return "its outcome '" + trial.outcome + "' is unknown";
  const bool timed = has_time(*outcome);
  if (timed && !is_time(trial.time_us)) {
    return "it is " + trial.outcome + format(" but took %g µs", trial.time_us);
  }
  const bool exact = *outcome == Outcome::ok;
  return first_wrong({exact ? wrong_interval(trial.interval_low_us, trial.interval_high_us) : "",
                      trial.samples < 0 ? format("it has %d samples", trial.samples) : "",
                      wrong_config(key, trial.config), wrong_json("facts", trial.facts),
                      wrong_json("provenance", trial.provenance)});
}

std::string wrong_plan(const WinnerRecord& winner) {
  try {
    if (from_winner(winner, Config{}).plan.launches.empty()) return "its launch plan launches nothing";
    return "";
  } catch (const std::exception& error) {
    return std::string("its launch plan cannot be read: ") + error.what();
  }
}

std::string wrong_winner(const WorkloadKey& key, const WinnerRecord& winner) {
  if (!is_time(winner.time_us)) return format("it took %g µs", winner.time_us);
  if (!is_time_or_unknown(winner.default_time_us)) {
    return format("the default beside it took %g µs", winner.default_time_us);
  }
  if (!std::isfinite(winner.roofline) || winner.roofline < 0)
    return format("its roofline fraction is %g", winner.roofline);
  return first_wrong({wrong_interval(winner.interval_low_us, winner.interval_high_us),
                      wrong_config(key, winner.config), wrong_plan(winner),
                      winner.cubin.empty() ? "its cubin is empty" : "",
                      wrong_json("provenance", winner.provenance)});
}

}  // namespace

RecordRules record_rules() { return {.trial = wrong_trial, .winner = wrong_winner}; }

}  // namespace moetune
