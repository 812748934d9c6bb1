#include "cache/pack_rows.h"

#include "base/digest.h"
#include "cache/ranges.h"

namespace moetune {

std::optional<PackManifest> read_manifest(const Database& database) {
  Query row = database.query("SELECT manifest, digest = moetune_digest(manifest) FROM pack");
  if (!row.step()) return std::nullopt;
  const std::string what = "the manifest of the pack " + database.path().string();
  if (row.integer(1) == 0) throw BrokenEnvironment(what + " is damaged (it does not match its digest)");
  try {
    return PackManifest::parse(row.text(0), what);
  } catch (const BadInput& error) {
    throw BrokenEnvironment(error.what());
  }
}

PackFamily family_of(const Database& database, const std::string& kernel, const std::string& family) {
  Query row = database.query(
      "SELECT v.digest FROM workloads w JOIN winners v ON v.workload = w.id"
      " WHERE w.kernel = ? AND w.family = ? ORDER BY v.digest",
      kernel, family);
  PackFamily found{kernel, family};
  DigestBuilder builder;
  while (row.step()) {
    builder.add(row.text(0));
    ++found.winners;
  }
  Query range =
      database.query("SELECT digest FROM ranges WHERE kernel = ? AND family = ? ORDER BY digest", kernel, family);
  while (range.step()) {
    builder.add("range").add(range.text(0));
    ++found.ranges;
  }
  found.digest = builder.finish();
  return found;
}

std::vector<PackFamily> families_of(const Database& database) {
  std::vector<PackFamily> families;
  {
    Query row = database.query(
        "SELECT w.kernel, w.family FROM workloads w JOIN winners v ON v.workload = w.id"
        " UNION SELECT kernel, family FROM ranges ORDER BY 1, 2");
    while (row.step()) families.push_back({row.text(0), row.text(1)});
  }
  for (PackFamily& family : families) family = family_of(database, family.kernel, family.family);
  return families;
}

void require_manifest(const Database& database, const PackManifest& manifest, const std::string& kernel,
                      const std::string& family, const SoundRows& sound) {
  const PackFamily held = family_of(database, kernel, family);
  const PackFamily* named = manifest.find(kernel, family);
  const bool as_named = named == nullptr ? held.winners == 0 && held.ranges == 0 : held.digest == named->digest;
  const auto are_all = [](std::int64_t rows, const std::optional<std::size_t>& found) {
    return !found || rows == static_cast<std::int64_t>(*found);
  };
  if (as_named && are_all(held.winners, sound.winners) && are_all(held.ranges, sound.ranges)) return;
  throw BrokenEnvironment("the pack " + database.path().string() + " does not hold the results of " + kernel + " " +
                          family + " that its manifest names; it was altered: take it from its maker again");
}

}  // namespace moetune
