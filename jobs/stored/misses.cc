#include "jobs/stored/misses.h"

#include "base/lists.h"
#include "base/located_json.h"

namespace moetune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20, kMostMisses = 1'000'000;
constexpr std::int64_t kMissesVersion = 1;

MissedWorkload missed_of(const JsonPlace& place) {
  const JsonPlace count = place.at("count");
  if (!count.value().is_number_unsigned()) count.fail("must be a whole number of at least 0" + count.shown());
  return {place.at("kernel").text(), place.at("problem").text(), count.value().get<std::uint64_t>()};
}

}  // namespace

std::vector<MissedWorkload> read_misses(const std::filesystem::path& file) {
  const LocatedJson json = LocatedJson::read(file, kMostBytes);
  const JsonPlace root = json.root();
  root.at("moetune_misses").integer(kMissesVersion, kMissesVersion);
  return gathered(root.at("misses").elements(kMostMisses), missed_of);
}

}  // namespace moetune
