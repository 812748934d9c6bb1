// Why a stored result may no longer be the best: what it was made with, against what there is today. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

enum class StaleCause {
  missing,    // nothing is stored
  contended,  // it was measured while somebody else used the GPU
  sources,    // the template or a header has changed
  space,      // the space's file has changed
  compiler,   // NVRTC has changed
  driver,     // the driver has changed
  judge,      // what it was found to be right by has changed: inputs, checks or references
  age,        // older than was asked for
  regret,     // of a range table: its certificate saw much more loss than its bound
};

std::string_view stale_cause_name(StaleCause cause);  // "compiler"
std::string stale_cause_words(StaleCause cause);      // "NVRTC has changed"

// The versions that a result depends on beside its problem and its hardware. An empty text is not known, and differs
// from nothing.
struct MadeWith {
  std::string sources, space, toolchain, driver;
  std::string judged = {};  // Judgement::of_problem

  bool operator==(const MadeWith&) const = default;
};

struct Incumbent {
  MadeWith made_with;
  bool contended = false;
  std::int64_t examined_at = 0;  // seconds since 1970; when it was stored, or found to be the best again; 0: unknown
};

// In the order of the enumeration. `max_age_s` of 0: age is no cause.
std::vector<StaleCause> stale_causes(const std::optional<Incumbent>& incumbent, const MadeWith& today, std::int64_t now,
                                     double max_age_s);

inline constexpr double kMissingTableGain = 0.25;  // of a range without a table

// The expected gain of a retuning, as a fraction of the time: the largest of the causes' figures. `missing_gain` is
// the gain of tuning over the default elsewhere.
double expected_gain(const std::vector<StaleCause>& causes, double missing_gain);

// Above 0: 1, but for what is stale by age alone: its age over the one asked for.
double staleness(const std::vector<StaleCause>& causes, const std::optional<Incumbent>& incumbent, std::int64_t now,
                 double max_age_s);

}  // namespace moetune
