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

MadeWith made_today(const WorkloadKey& key) {
  const std::optional<std::string> space = find_resource("spaces/" + key.kernel + ".json");
  return {key.source_digest, space ? digest(*space) : "", key.toolchain, key.hardware.driver};
}

std::string judged_today(const WorkloadKey& key) {
  const Kernel* const kernel = known_kernel(key.kernel);
  if (kernel == nullptr || key.hardware.origin != "gpu") return "";
  try {
    return Judgement(*kernel, stored_problem(*kernel, key), stored_limits(key.hardware)).of_problem();
  } catch (const BadInput&) {
    return "";
  }
}

}  // namespace moetune
