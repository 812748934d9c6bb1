#include "soundness/soundness.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_scanner.h"
#include "base/stored_time.h"
#include "base/suggest.h"
#include "base/time_stamp.h"
#include "base/version.h"
#include "kernels/registry.h"
#include "search/outcome.h"
#include "soundness/peak.h"
#include "soundness/sound_parts.h"
#include "soundness/sound_plan.h"

namespace moetune {
namespace {

// A kernel that is not moetune's comes with a recording, and then has no sources.
std::string wrong_kernel(const WorkloadKey& key) {
  if (key.hardware.origin != "gpu" && key.source_digest.empty()) return "";
  return unknown_name("kernel", key.kernel, all_kernels(), &Kernel::name);
}

// Checks against today's dimensions only if the sources are today's: others may have had other names or ranges. The
// text must be a list of values in any case.
std::string wrong_problem(const Workload& workload, const KnownWorkload& known) {
  const std::string& text = workload.key.problem;
  try {
    if (split_assignment(text, "its problem").empty()) return "its problem is empty";
  } catch (const BadInput& error) {
    return error.what();
  }
  if (!known.is_current) return "";
  if (!known.problem) return "its problem: " + known.wrong_problem;
  if (known.problem->text() != text) return "its problem should be written " + known.problem->text();
  return workload.family.empty() || workload.family == known.family
             ? ""
             : "its problem is of another family than it is stored for: " + known.family;
}

void remember(const std::string& text, const Config& config, ParsedConfigs& configs) {
  constexpr std::size_t kMostConfigs = 1 << 14;
  if (configs.size() == kMostConfigs) configs.clear();
  configs.emplace(text, config);
}

// Checks the values only for one of moetune's kernels with today's sources, and then gives what it `read`. Recordings
// of other kernels hold any values, and other sources had another space.
std::string wrong_config(const std::string& config, const KnownKernel& known, std::optional<Config>& read) {
  if (known.space == nullptr) return "";
  if (known.is_current && known.configs != nullptr) {
    if (const auto seen = known.configs->find(config); seen != known.configs->end()) {
      read = seen->second;
      return "";
    }
  }
  try {
    if (split_assignment(config, "its configuration").empty()) return "its configuration is empty";
  } catch (const BadInput& error) {
    return error.what();
  }
  if (!known.is_current) return "";
  try {
    read = known.space->parse_config(config);
    if (read->text() != config) return "its configuration should be written " + read->text();
    if (known.configs != nullptr) remember(config, *read, *known.configs);
    return "";
  } catch (const BadInput& error) {
    return std::string("its configuration: ") + error.what();
  }
}

std::string wrong_json(const char* what, const std::string& text) {
  return is_json_object(text) ? "" : std::string("its ") + what + " cannot be read as JSON";
}

// The judgement of a text, unless it has been found sound before.
template <typename Judge>
std::string unless_seen(const std::string& text, std::unordered_set<std::string>& sound, const Judge& judge) {
  constexpr std::size_t kMostTexts = 1 << 16;
  if (sound.contains(text)) return "";
  std::string wrong = judge();
  if (sound.size() == kMostTexts) sound.clear();
  if (wrong.empty()) sound.insert(text);
  return wrong;
}

std::string wrong_interval(double low_us, double high_us) {
  if (is_stored_time(low_us) && is_stored_time(high_us) && low_us <= high_us) return "";
  return format("its interval is %g to %g µs", low_us, high_us);
}

// Checks that a median lies in its interval; both may be rounded.
std::string wrong_place(double time_us, double low_us, double high_us) {
  constexpr double kRounding = 1e-3;
  if (time_us >= low_us * (1 - kRounding) && time_us <= high_us * (1 + kRounding)) return "";
  return format("its time of %g µs lies outside of its interval, %g to %g µs", time_us, low_us, high_us);
}

std::string wrong_figures(double time_us, double default_us) {
  if (!is_stored_time(time_us)) return format("it took %g µs", time_us);
  if (default_us == 0 || is_stored_time(default_us)) return "";
  return format("the default beside it took %g µs", default_us);
}

// Behind a producer fresh inputs need not come from memory.
std::string wrong_roofline(double roofline, Timing timing) {
  constexpr double kMost = 1e3;
  if (!std::isfinite(roofline) || roofline < 0 || roofline > kMost)
    return format("its roofline fraction is %g", roofline);
  if (timing == Timing::chained || roofline * kLeastShare <= 1) return "";
  return format("it is faster than its GPU can be: %.1f%% of the roofline", roofline * 100);
}

// tuner/timings.h: an object a timing, whose numbers are times, or 0 for what did not run.
std::string wrong_timings(const std::string& text) {
  if (text.empty()) return "";
  const nlohmann::json document = parse_json_or_discard(text);
  if (!document.is_object()) return "its times by timing cannot be read as JSON";
  for (const auto& [name, times] : document.items()) {
    if (!times.is_object()) return "its times by timing have no " + name;
    for (const auto& [figure, value] : times.items()) {
      const double time_us = value.is_number() ? value.get<double>() : 0;
      if (time_us != 0 && !is_stored_time(time_us))
        return format("its %s of %s is %g", figure.c_str(), name.c_str(), time_us);
    }
  }
  return "";
}

std::string wrong_launch(const HardwareKey& hardware, const StoredLaunch& launch, WinnerParts parts, bool is_ours,
                         const KnownWorkload& known) {
  std::optional<Config> config;
  return first_wrong([&] { return wrong_config(launch.config, known, config); },
                     [&] { return parts == WinnerParts::all && launch.cubin.empty() ? "its cubin is empty" : ""; },
                     [&] {
                       if (parts == WinnerParts::figures) return std::string();
                       return wrong_plan(launch, hardware, known, is_ours && config ? &*config : nullptr);
                     });
}

// Whatever the record says of the roofline.
std::string too_fast(const WorkloadKey& key, double time_us, const KnownWorkload& known) {
  if (!known.problem) return "";
  try {
    return too_fast(time_us, *known.problem, *known.kernel, key.hardware, key.timing);
  } catch (const BadInput&) {  // of other sources, with numbers that the kernel does not take today
    return "";
  }
}

}  // namespace

std::string wrong_hardware(const HardwareKey& hardware) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
  constexpr int kMostSms = 1 << 16, kMostKhz = 100'000'000, kMostCapability = 9999;
  const auto is_within = [](std::int64_t value, std::int64_t most) { return value >= 0 && value <= most; };
  const bool can_be = is_within(hardware.compute_capability, kMostCapability) &&
                      is_within(hardware.sm_count, kMostSms) && is_within(hardware.l2_bytes, kMostBytes) &&
                      is_within(hardware.memory_bytes, kMostBytes) && is_within(hardware.sm_clock_khz, kMostKhz) &&
                      is_within(hardware.memory_clock_khz, kMostKhz);
  return can_be ? "" : "no GPU is like its hardware: " + hardware.text();
}

std::string wrong_date(const std::string& stored_at) {
  return parse_utc(stored_at) ? "" : "it was stored at '" + stored_at + "', which is no time";
}

std::string too_fast(double time_us, const Problem& problem, const Kernel& kernel, const HardwareKey& hardware,
                     Timing timing) {
  const double least_us = least_time_us(kernel.cost(problem), timing, peak_of(hardware, 0));
  const std::string wrong = why_implausible(time_us, least_us);
  return wrong.empty() ? "" : "it is " + wrong;
}

std::string why_unsound(const Workload& workload, const KnownWorkload& known) {
  return first_wrong(
      [&] { return wrong_hardware(workload.key.hardware); },
      [&] { return known.kernel == nullptr ? wrong_kernel(workload.key) : wrong_problem(workload, known); });
}

std::string why_unsound(const TrialRecord& trial, const KnownKernel& known, SoundTexts& seen) {
  const std::optional<Outcome> outcome = outcome_from_name(trial.outcome);
  if (!outcome) return "its outcome '" + trial.outcome + "' is unknown";
  if (has_time(*outcome) && !is_stored_time(trial.time_us))
    return "it is " + trial.outcome + format(" but took %g µs", trial.time_us);
  const bool exact = *outcome == Outcome::ok;
  return first_wrong([&] { return exact ? wrong_interval(trial.interval_low_us, trial.interval_high_us) : ""; },
                     [&] { return trial.samples < 0 ? format("it has %d samples", trial.samples) : ""; },
                     [&] {
                       return unless_seen(trial.config, seen.configs, [&] {
                         std::optional<Config> read;
                         return wrong_config(trial.config, known, read);
                       });
                     },
                     [&] { return wrong_json("facts", trial.facts); },
                     [&] {
                       return unless_seen(trial.provenance, seen.provenances,
                                          [&] { return wrong_json("provenance", trial.provenance); });
                     });
}

std::string why_unsound(const Workload& workload, const WinnerRecord& winner, WinnerParts parts,
                        const KnownWorkload& known) {
  const WorkloadKey& key = workload.key;
  // As nlohmann::json writes it.
  const std::string ours = "\"moetune\":\"" + std::string(version()) + "\"";
  const bool is_ours = winner.provenance.find(ours) != std::string::npos;
  const bool is_whole = parts != WinnerParts::figures;
  return first_wrong([&] { return why_unsound(workload, known); },
                     [&] { return wrong_figures(winner.time_us, winner.default_time_us); },
                     [&] { return wrong_interval(winner.interval_low_us, winner.interval_high_us); },
                     [&] { return wrong_place(winner.time_us, winner.interval_low_us, winner.interval_high_us); },
                     [&] { return wrong_roofline(winner.roofline, key.timing); },
                     [&] { return too_fast(key, winner.time_us, known); }, [&] { return wrong_date(winner.stored_at); },
                     [&] { return is_whole ? wrong_timings(winner.timings) : ""; },
                     [&] { return wrong_launch(key.hardware, winner, parts, is_ours, known); },
                     [&] {
                       return winner.default_launch.config.empty()
                                  ? ""
                                  : wrong_launch(key.hardware, winner.default_launch, parts, is_ours, known);
                     },
                     [&] { return is_whole ? wrong_json("provenance", winner.provenance) : ""; });
}

std::string why_unsound(const FamilyWinner& winner, const Kernel& kernel, const Problem& problem) {
  const WorkloadKey& key = winner.workload.key;
  return first_wrong([&] { return wrong_hardware(key.hardware); },
                     [&] { return wrong_figures(winner.time_us, winner.default_time_us); },
                     [&] { return wrong_interval(winner.interval_low_us, winner.interval_high_us); },
                     [&] { return wrong_place(winner.time_us, winner.interval_low_us, winner.interval_high_us); },
                     [&] { return wrong_roofline(winner.roofline, key.timing); },
                     [&] { return too_fast(winner.time_us, problem, kernel, key.hardware, key.timing); },
                     [&] { return wrong_date(winner.stored_at); });
}

}  // namespace moetune
