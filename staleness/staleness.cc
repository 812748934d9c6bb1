#include "staleness/staleness.h"

#include <algorithm>

namespace moetune {
namespace {

struct CauseFacts {
  std::string_view name, words;
  double gain;  // what to expect of it; `missing` is given
};

constexpr CauseFacts kCauses[] = {
    {"missing", "nothing is stored", 0.25},
    {"contended", "it was measured beside somebody else's work", 0.10},
    {"sources", "the template or a header has changed", 0.05},
    {"space", "the space has changed", 0.05},
    {"compiler", "NVRTC has changed", 0.03},
    {"driver", "the driver has changed", 0.02},
    {"judge", "its inputs, checks or references have changed", 0.05},
    {"age", "it is older than asked", 0.01},
    {"regret", "its table loses much more at unseen shapes than its bound", 0.03},
};

const CauseFacts& facts_of(StaleCause cause) { return kCauses[static_cast<std::size_t>(cause)]; }

bool changed(const std::string& then, const std::string& now) { return !then.empty() && !now.empty() && then != now; }

}  // namespace

std::string_view stale_cause_name(StaleCause cause) { return facts_of(cause).name; }

std::string stale_cause_words(StaleCause cause) { return std::string(facts_of(cause).words); }

std::vector<StaleCause> stale_causes(const std::optional<Incumbent>& incumbent, const MadeWith& today, std::int64_t now,
                                     double max_age_s) {
  if (!incumbent) return {StaleCause::missing};
  const MadeWith& then = incumbent->made_with;
  std::vector<StaleCause> causes;
  const auto add = [&](StaleCause cause, bool holds) {
    if (holds) causes.push_back(cause);
  };
  add(StaleCause::contended, incumbent->contended);
  add(StaleCause::sources, changed(then.sources, today.sources));
  add(StaleCause::space, changed(then.space, today.space));
  add(StaleCause::compiler, changed(then.toolchain, today.toolchain));
  add(StaleCause::driver, changed(then.driver, today.driver));
  add(StaleCause::judge, changed(then.judged, today.judged));
  const auto age_s = static_cast<double>(now - incumbent->examined_at);
  add(StaleCause::age, max_age_s > 0 && incumbent->examined_at > 0 && age_s >= max_age_s);
  return causes;
}

double expected_gain(const std::vector<StaleCause>& causes, double missing_gain) {
  double gain = 0;
  for (const StaleCause cause : causes)
    gain = std::max(gain, cause == StaleCause::missing ? missing_gain : facts_of(cause).gain);
  return gain;
}

double staleness(const std::vector<StaleCause>& causes, const std::optional<Incumbent>& incumbent, std::int64_t now,
                 double max_age_s) {
  const bool old_alone = causes.size() == 1 && causes.front() == StaleCause::age;
  if (!old_alone || !incumbent || max_age_s <= 0) return 1;
  return static_cast<double>(now - incumbent->examined_at) / max_age_s;
}

}  // namespace moetune
