#include "staleness/today.h"

#include <optional>

#include "base/digest.h"
#include "base/error.h"
#include "base/resources.h"
#include "base/time_stamp.h"
#include "kernels/registry.h"
#include "soundness/stored_key.h"
#include "tuner/judgement.h"

namespace moetune {

std::int64_t seconds_of_date(const std::string& date) {
  const std::optional<UtcSeconds> time = parse_utc(date);
  return time ? static_cast<std::int64_t>(time->time_since_epoch().count()) : 0;
}

MadeWith TodaysMakings::of(const WorkloadKey& key) {
  auto space = spaces_.find(key.kernel);
  if (space == spaces_.end()) {
    const std::optional<std::string> text = find_resource("spaces/" + key.kernel + ".json");
    space = spaces_.emplace(key.kernel, text ? digest(*text) : "").first;
  }
  return {key.source_digest, space->second, key.toolchain, key.hardware.driver};
}

std::string TodaysMakings::judged(const WorkloadKey& key, const KnownWorkload& known) const {
  if (!known.problem || !known.limits || key.hardware.origin != "gpu") return "";
  try {
    return Judgement(*known.kernel, *known.problem, *known.limits, sources_).of_problem();
  } catch (const BadInput&) {
    return "";
  }
}

std::string TodaysMakings::judged(const WorkloadKey& key) const {
  return judged(key, known_workload(key, {.kernel = known_kernel(key.kernel)}));
}

}  // namespace moetune
