// An open cache file: its connection, the locks of its searches, and its marks of who writes and what is sound. What
// the parts of a Cache share; for cache/ alone. Belongs to one thread at a time, but for the keeper's own thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/cubins.h"
#include "cache/digest_sql.h"
#include "cache/file/database.h"
#include "cache/file/search_locks.h"
#include "cache/file/settled_file.h"
#include "cache/log_keeper.h"

namespace moetune {

struct CacheFile {
  Database database;
  CacheOptions options;
  bool read_only = false;
  std::string warning;
  SearchLocks searches;
  std::optional<PackManifest> pack;
  std::optional<FileState> settled;  // if it is read without locks
  RecordRules rules;
  mutable std::optional<bool> counts;                // once somebody has asked
  std::map<std::string, std::int64_t> sound_cubins;  // rows by digest that this object has found whole
  UnpackedCubins cubins;
  bool has_log = false;             // commits go into a log beside the file first
  std::optional<LogKeeper> keeper;  // while searches write

  CacheFile(Database opened, bool only_read, const CacheOptions& given = {})
      : database(std::move(opened)), options(given), read_only(only_read), searches(database.path()) {}
  ~CacheFile();

  // Marks the main file as written to, and keeps it up with the log.
  void begin_writing();
  // Takes the mark away, unless another process's search still writes.
  void end_writing();
  bool is_marked() const;

  // Whether the file counts its trials by workload; packs and what a search has not opened yet do not.
  bool has_counts() const;

  // Makes a change that no search of the workload may run beside. Throws BrokenEnvironment if one does.
  void alone_on(std::int64_t workload, const std::function<void()>& change);
};

// The id of a hardware row, inserted if it is new and brought up to the present driver. Within a transaction.
std::int64_t put_hardware(const Database& database, const HardwareKey& key);
std::optional<std::int64_t> find_hardware(const Database& database, const HardwareKey& key);

// The columns of a hardware row `h` without its key, and the key that they make, from the column `first` on.
#define MOETUNE_HARDWARE_COLUMNS                                                                              \
  "h.name, h.compute_capability, h.sm_count, h.l2_bytes, h.memory_bytes, h.sm_clock_khz, h.memory_clock_khz," \
  " h.origin, h.driver"
HardwareKey hardware_of(const Query& row, int first);

// A timing of a later moetune counts as the least that a server wants.
inline Timing stored_timing(const std::string& name) { return timing_from_name(name).value_or(Timing::alone); }

// Whether a file may claim such a measurement of a device, in its own unit: tera-somethings a second, microseconds.
inline bool is_calibration(double value) { return value >= 1e-9 && value <= 1e9; }

// Stores a trial, whose digest is DIGEST; a condition may follow, under which it replaces `t`, the one of its
// configuration.
#define MOETUNE_PUT_TRIAL(DIGEST)                                                                                 \
  "INSERT INTO trials AS t (workload, config, outcome, message, time_us, interval_low_us, interval_high_us,"      \
  " samples, facts, provenance, contended, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, " DIGEST \
  ") ON CONFLICT (workload, config) DO UPDATE SET outcome = excluded.outcome, message ="                          \
  " excluded.message, time_us = excluded.time_us, interval_low_us = excluded.interval_low_us,"                    \
  " interval_high_us = excluded.interval_high_us, samples = excluded.samples, facts = excluded.facts,"            \
  " provenance = excluded.provenance, contended = excluded.contended, digest = excluded.digest"
// The columns of read_trial(), from `first` on.
#define MOETUNE_TRIAL_COLUMNS                                                                         \
  "config, outcome, message, time_us, interval_low_us, interval_high_us, samples, facts, provenance," \
  " contended"
void read_trial(const Query& row, TrialRecord& trial, int first = 0);

// Removes the builds past the `limit` bytes that were used last.
void drop_unused_builds(const Database& database, std::int64_t limit);
std::string build_digest(const std::string& name, const BuildRecord& build);

}  // namespace moetune
