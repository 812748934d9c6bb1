// Making packs of a cache's winners.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/error.h"
#include "cache/cache.h"

namespace moetune {

// A cache that has no winner to export.
class NoWinners : public BadInput {
 public:
  using BadInput::BadInput;
};

// Selects winners and range tables.
struct PackFilter {
  std::function<bool(const std::string& kernel, const HardwareKey&)> takes = {};  // empty: all
  bool recorded = false;  // those of recordings too, which only a runtime that is opened for tests takes
  // The kernel.json of a user's kernel, "" for others; empty: none. What a pack as `source` has stands in for it.
  std::function<std::string(const std::string& kernel)> description = {};
};

struct PackContents {
  std::int64_t winners = 0, families = 0, ranges = 0;
  std::int64_t bytes = 0;  // of the file
  // Winners that the filter takes, and range tables: left out as no other machine should launch them.
  std::int64_t recorded = 0, contended = 0, provisional = 0, damaged = 0, without_family = 0;
  std::int64_t damaged_ranges = 0;
};

struct MadePack {
  std::string bytes;
  PackContents contents;
};

// Makes a pack of this file, which from then on is only read: no trials and builds, one plain file.
void seal(Cache& cache, const std::string& made_by, std::map<std::string, std::string> kernels = {});

// Makes a pack of the winners and range tables that a server may launch; one that breaks the rules of `source` counts
// as damaged. Throws NoWinners if there is none; BrokenEnvironment as Cache does, and for want of memory.
MadePack make_pack(const Cache& source, const PackFilter& filter);

// Another text once a winner or a range table is another one.
std::string pack_state(const Cache& source);

// Writes one, replacing `path` in one step; a killed process leaves at most a PATH.XXXXXX.tmp, which the next one of an
// hour later removes. Throws BadInput for a `path` that holds anything but a pack.
PackContents export_pack(const Cache& source, const std::filesystem::path& path, const PackFilter& filter);

}  // namespace moetune
