// The contents of a pack, as it states them. A pack is a cache file of winners alone, made to be shipped: no trials,
// no builds, never written to again. Its manifest names every family with a digest over its winners and range tables,
// so that none can be changed, added or taken away unnoticed. (A digest finds damage, not forgery: a user of a pack
// trusts its maker.) Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct PackFamily {
  std::string kernel, family;
  std::int64_t winners = 0;
  std::string digest;       // over the digests of its winners and of its range tables
  std::int64_t ranges = 0;  // tables that a file holds; a manifest does not state how many
};

struct PackManifest {
  std::string made_by;  // moetune's version
  std::vector<PackFamily> families;
  // The kernel.json of users' kernels, by their names: a server launches them without their folders.
  std::map<std::string, std::string> kernels;

  const PackFamily* find(std::string_view kernel, std::string_view family) const;  // null if there is none

  std::string text() const;  // JSON
  // Throws BadInput that begins with `what` for a text that is none, or of a newer moetune.
  static PackManifest parse(std::string_view text, std::string_view what);
};

}  // namespace moetune
