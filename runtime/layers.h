// The files that a runtime was opened with, in order of precedence: caches and packs, read-only.
//
// Lives while a family is opened or a runtime refreshed, and no longer: a file that is open in WAL mode may be mapped
// (its -shm), and another process that truncates the mapping meanwhile kills the one that reads it. A file that
// nobody has changed lately is read without locks, and read again under them if it was changed meanwhile.
//
// Not thread-safe: the runtime's slow path uses it under a lock. A file that cannot be opened is left out with
// a warning; a winner that cannot be trusted (damaged, contended, of a recording) is never returned.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/cache.h"
#include "cache/pack_signature.h"
#include "cache/ranges.h"

namespace moetune {

// One tuned problem of a family, without its cubins.
struct StoredWinner {
  std::size_t layer = 0;
  FamilyWinner record;
};

struct StoredRange {
  std::size_t layer = 0;
  FamilyRange record;
};

// The records that serve a family: first layers first; within a layer by timing, as a server prefers it, then the
// latest first.
struct StoredFamily {
  std::vector<StoredWinner> winners;
  std::vector<StoredRange> ranges;
};

// No file is there to be opened.
class NothingStored : public BrokenEnvironment {
 public:
  using BrokenEnvironment::BrokenEnvironment;
};

class Layers {
 public:
  // Files, and folders for every *.db and *.pack inside in order of name. A *.pack must have its manifest. Throws
  // BrokenEnvironment, with the first reason, if none can be opened, and NothingStored if the paths hold none.
  // With trusted keys a pack is loaded only if one of them has signed it, from the bytes that were verified; and a
  // folder gives its packs alone, because nobody signs a cache. `trusted` must outlive the object.
  // A file is read without locks if it was not changed for `settled_age`.
  explicit Layers(const std::vector<std::filesystem::path>& paths, const TrustedKeys& trusted,
                  std::chrono::milliseconds settled_age = std::chrono::seconds(2));

  // Reads the records of a family that are fit for a server. A layer that is damaged, or a pack that was altered,
  // gives nothing, with a warning.
  StoredFamily family(const std::string& kernel, const std::string& family, bool allow_recorded);
  // Throws BrokenEnvironment if the file or the cubin is gone, or the cubin does not match its digest.
  Blob cubin(std::size_t layer, const std::string& digest);

  std::string path(std::size_t layer) const { return caches_.at(layer).path().string(); }
  // The files that could not be opened or read, a sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  StoredFamily read(std::size_t layer, const std::string& kernel, const std::string& family, bool allow_recorded);
  void open(const std::filesystem::path& file);
  // Opens the file's cache. Throws if it may not be loaded.
  Cache checked(const std::filesystem::path& file, bool without_locks) const;
  // Returns read(cache) of a layer's cache. Reads again, under locks, if the file has changed and `read` threw or
  // `is_sound` does not hold. Throws BrokenEnvironment also if the file is gone by then.
  template <typename Read, typename IsSound>
  auto read_from(std::size_t layer, const Read& read, const IsSound& is_sound);

  const TrustedKeys& trusted_;
  const std::chrono::milliseconds settled_age_;
  // Takes in the kernels that a pack describes.
  void add_kernels(const Cache& pack);

  std::vector<Cache> caches_;
  std::set<std::pair<std::string, std::string>> refused_;  // packs, and kernels whose results in them are not used
  std::vector<std::string> warnings_;
};

}  // namespace moetune
