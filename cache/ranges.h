// Range tables in a cache file: what serves a whole family of problems on one GPU, with the cubins that it needs.
//
// A record is one row and its cubins, replaced in one transaction. Its texts are documents of higher rooms: `table` is
// for serving (ranges/range_table.h), `progress` what a range search continues from.
// A part of an open Cache (cache/cache.h), which must outlive it; threads and errors as there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cache/winners.h"

namespace moetune {

// One a family, hardware, sources, toolchain and timing.
struct RangeKey {
  std::string kernel, family;
  HardwareKey hardware;
  std::string source_digest, toolchain;
  Timing timing = Timing::overlapped;

  bool operator==(const RangeKey& other) const {
    return kernel == other.kernel && family == other.family && hardware.text() == other.hardware.text() &&
           source_digest == other.source_digest && toolchain == other.toolchain && timing == other.timing;
  }
};

struct RangeRecord {
  std::string table;                   // "" before there is one
  std::string progress;                // "" in a pack
  std::vector<StoredLaunch> variants;  // a configuration of each cubin of `table`; plans are not kept
  std::string stored_at;               // UTC, ISO 8601; "": when it is stored
  std::string provenance = {};         // JSON: device, driver, settings of the GPU; "" if unknown
};

// A table that another has replaced.
struct RangeGeneration {
  std::int64_t number = 0;  // of its range; the first is 1
  std::string reason;       // as a winner's
  std::string replaced_at;  // UTC, ISO 8601
  std::string table;
  std::string provenance;
  std::string stored_at;
};

// A table as a runtime looks for it.
struct FamilyRange {
  struct Variant {
    std::string config, interface, cubin_digest;  // for Winners::cubin
  };
  RangeKey key;
  std::string table;
  std::vector<Variant> variants = {};
  std::string stored_at = {};
  std::string provenance = {};
  std::int64_t id = 0;  // for Ranges::history
};

// A table that is not handed out.
struct DamagedRange {
  FamilyRange range;
  std::string what;  // is wrong with it
};

// All tables of a file, each judged once: latest first.
struct JudgedRanges {
  std::vector<FamilyRange> sound;
  std::vector<DamagedRange> damaged;
};

// "range table 3 (router experts=8)"
std::string place_of(const FamilyRange& range);

class Ranges {
 public:
  explicit Ranges(CacheFile& file) : file_(&file) {}

  // Replaces the table of that key; the old one goes into its history with `reason`, unless this object has stored it
  // itself.
  void put(const RangeKey& key, const RangeRecord& record, const char* reason = kReplacedSearch);
  // The progress in the record; "" if there is none, or none that matches its digest.
  std::string progress(const RangeKey& key) const;
  // Whether there is a record of that key that does not match its digest.
  bool is_damaged(const RangeKey& key) const;
  // The undamaged tables of a family, latest first. Throws as Winners::of_family does.
  std::vector<FamilyRange> of_family(const std::string& kernel, const std::string& family) const;
  std::vector<FamilyRange> all() const;          // the same of all families
  std::vector<FamilyRange> read() const;         // the same whatever the rules say
  std::vector<DamagedRange> mismatched() const;  // those that read() leaves out: they do not match their digests
  JudgedRanges judged() const;                   // what all() has, and what it leaves out
  // With its cubins, without its progress. Throws BrokenEnvironment for a damaged cubin.
  RangeRecord record(const FamilyRange& range) const;

  // As of Winners, by FamilyRange::id.
  std::vector<RangeGeneration> history(std::int64_t range) const;
  RangeGeneration roll_back(std::int64_t range, std::optional<std::int64_t> number = std::nullopt);
  // Removes it, sound or not, with its progress and history; false if there is none. A search of it that is under way
  // stores it again.
  bool forget(std::int64_t range);

 private:
  CacheFile* file_;
  // Tables that this object has stored: a search that stores a better one of its own every few minutes leaves the
  // history the one before it, and not each of its steps.
  std::map<std::int64_t, std::string> own_tables_;
};

}  // namespace moetune
