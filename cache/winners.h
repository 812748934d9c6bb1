// The winners of a cache file, the cubins that they share, and the winners that others replaced.
//
// A part of an open Cache (cache/cache.h), which must outlive it; threads and errors as there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/file/blob.h"
#include "cache/workloads.h"

namespace moetune {

// A configuration with all that a launch of it needs.
struct StoredLaunch {
  std::string config;     // canonical text; "" if there is none
  std::string plan;       // JSON
  std::string interface;  // interface_digest of the plan: how the cubin expects to be called
  Blob cubin;
};

struct WinnerRecord : StoredLaunch {
  double time_us = 0, interval_low_us = 0, interval_high_us = 0;
  double default_time_us = 0;   // 0 if unknown
  double roofline = 0;          // fraction of the device's measured ceiling; 0 if unknown
  StoredLaunch default_launch;  // the space's default, if it was built and right; may be the winner itself
  std::string provenance;       // JSON: strategy, seed, trials, driver, date, moetune version
  std::string stored_at;        // UTC, ISO 8601, of its search; "": when it is stored
  std::string timings;          // JSON: its times by how launches follow each other; "" if only its own is known
  bool contended = false;       // measured while somebody else used the GPU: not for serving
};

// The parts of a winner to read and to believe. `figures` are for lists: the record matches its digest, but neither its
// plan nor its documents are judged, so nothing may be launched by them, and interfaces and the default's plan are "".
enum class WinnerParts { all, without_cubins, figures };

// A winner as a runtime looks for it: what chooses and what loads, without plans and cubins.
struct FamilyWinner {
  Workload workload;
  std::string config, interface;
  std::string default_config, default_interface;   // "" if there is none
  std::string cubin_digest, default_cubin_digest;  // for Winners::cubin; "" if there is none
  double time_us = 0, default_time_us = 0;
  double interval_low_us = 0, interval_high_us = 0;
  double roofline = 0;
  std::string stored_at;
  bool contended = false, provisional = false;
};

// Whether this provenance is of a winner whose search was interrupted: no duel has confirmed it.
bool is_provisional(std::string_view provenance);

// The fields by which a merge compares winners.
struct WinnerTimes {
  std::string config;
  double time_us = 0, low_us = 0, high_us = 0;
  bool contended = false, provisional = false;
  std::string stored_at, record;  // `record`: the digest of its row
};

// Why a winner was replaced, as it is stored.
inline constexpr const char* kReplacedFaster = "faster";        // a search found a faster configuration
inline constexpr const char* kReplacedSearch = "search";        // a search chose otherwise, or measured again
inline constexpr const char* kReplacedContended = "contended";  // by one measured on a quiet GPU
inline constexpr const char* kReplacedMerge = "merge";          // by a better one from another file
inline constexpr const char* kReplacedRollback = "rollback";    // by an earlier one

// A winner that another has replaced.
struct Generation {
  std::int64_t number = 0;  // of its workload; the first is 1
  std::string reason;       // why it was replaced
  std::string replaced_at;  // UTC, ISO 8601
  std::string config;
  double time_us = 0, interval_low_us = 0, interval_high_us = 0, default_time_us = 0;
  bool contended = false;
  std::string provenance;  // JSON, as it was: driver, device, clocks
  std::string stored_at;
};

// A stored winner that does not match its digest: it is unusable, the rest of the file may well be sound.
class DamagedWinner : public BrokenEnvironment {
 public:
  using BrokenEnvironment::BrokenEnvironment;
};

struct FamilyWinners {
  std::vector<FamilyWinner> sound;  // that match their digests, latest first
  std::size_t damaged = 0;          // how many others there are
};

class Winners {
 public:
  explicit Winners(CacheFile& file) : file_(&file) {}

  // Replaces the workload's winner, but a sound one never by a contended one. The old one goes into the history with
  // `reason` (by default the one that the times tell), unless it is the same configuration and cubin with other times.
  // It is stored now unless its record says when. The blob is stored compressed with its digest; the old winner stays
  // until the new one is committed.
  void put(std::int64_t workload, const WinnerRecord& winner, const char* reason = nullptr);
  // Throws DamagedWinner if anything of the record, its workload or its cubin does not match its digest, or if it
  // breaks the rules.
  std::optional<WinnerRecord> find(std::int64_t workload, WinnerParts parts = WinnerParts::all) const;
  // The same without cubins; nullopt for a damaged one, too.
  std::optional<WinnerRecord> find_sound(std::int64_t workload) const;
  // As find(), whatever the rules say.
  std::optional<WinnerRecord> read(std::int64_t workload, WinnerParts parts) const;
  // nullopt if the row or its key is damaged; whatever the rules say.
  std::optional<WinnerTimes> times(std::int64_t workload) const;
  // The winners of a family; the rules are for who reads them. Throws BrokenEnvironment if the file is a pack whose
  // manifest names others.
  FamilyWinners of_family(const std::string& kernel, const std::string& family) const;
  // Throws BrokenEnvironment if it is not there or does not match its digest.
  Blob cubin(const std::string& digest) const;

  // The undamaged winners that others replaced, latest first. Never handed out, exported or merged.
  std::vector<Generation> history(std::int64_t workload) const;
  // Makes that generation, or the latest that launches anything else, the winner again; the present one goes into the
  // history. Returns it. Throws BadInput if there is none.
  Generation roll_back(std::int64_t workload, std::optional<std::int64_t> number = std::nullopt);

 private:
  CacheFile* file_;
};

}  // namespace moetune
