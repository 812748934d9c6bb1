// Range tables in a cache file: what serves a whole family of problems on one GPU, with the cubins that it needs.
//
// A record is one row and its cubins, replaced in one transaction. Its texts are documents of higher rooms: `table` is
// for serving (ranges/range_table.h), `progress` what a range search continues from. Plain values.
#pragma once

#include <string>
#include <vector>

#include "cache/cache.h"

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
  std::string reason;       // cache/history.h
  std::string replaced_at;  // UTC, ISO 8601
  std::string table;
  std::string provenance;
  std::string stored_at;
};

// A table as a runtime looks for it.
struct FamilyRange {
  struct Variant {
    std::string config, interface, cubin_digest;
    std::int64_t cubin = 0;  // for Cache::cubin
  };
  RangeKey key;
  std::string table;
  std::vector<Variant> variants = {};
  std::string stored_at = {};
  std::string provenance = {};
  std::int64_t id = 0;  // for Cache::range_history
};

// A table that is not handed out.
struct DamagedRange {
  FamilyRange range;
  std::string what;  // is wrong with it
};

// "range table 3 (router experts=8)"
std::string place_of(const FamilyRange& range);

}  // namespace moetune
