// The rows of a cache file that make it a pack, or that a pack's manifest speaks of. For cache/ alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/file/database.h"
#include "cache/pack_manifest.h"

namespace moetune {

// nullopt for a cache. Throws BrokenEnvironment for a manifest that is damaged or of a newer moetune.
std::optional<PackManifest> read_manifest(const Database& database);

// The file's rows of one family, and of every family, by the digests that the rows state.
PackFamily family_of(const Database& database, const std::string& kernel, const std::string& family);
std::vector<PackFamily> families_of(const Database& database);

// Throws BrokenEnvironment if the family's rows are not those that the manifest names, or if not all of them are sound:
// `sound` counts its winners or its range tables that match their digests.
struct SoundRows {
  std::optional<std::size_t> winners, ranges;  // nullopt: not looked at
};
void require_manifest(const Database& database, const PackManifest& manifest, const std::string& kernel,
                      const std::string& family, const SoundRows& sound);

}  // namespace moetune
