// The state of a Cache, shared by the files that implement its parts (trials, winners, builds, checks).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/file/database.h"
#include "cache/file/search_locks.h"
#include "cache/file/settled_file.h"
#include "cache/log_keeper.h"

namespace moetune {

struct Cache::Impl {
  Database database;
  CacheOptions options;
  bool read_only = false;
  std::string warning;
  SearchLocks searches;
  std::optional<PackManifest> pack;
  std::optional<FileState> settled;  // if it is read without locks
  // Tables that this object has stored, by range: a search that stores a better one of its own every few minutes
  // leaves the history the one before it, and not each of its steps.
  std::map<std::int64_t, std::string> own_tables;
  RecordRules rules;
  bool has_log = false;             // commits go into a log beside the file first
  std::optional<LogKeeper> keeper;  // while searches write

  Impl(Database opened, bool only_read, const CacheOptions& given = {})
      : database(std::move(opened)), options(given), read_only(only_read), searches(database.path()) {}
  ~Impl();

  // Marks the main file as written to, and keeps it up with the log.
  void begin_writing();
  // Takes the mark away, unless another process's search still writes.
  void end_writing();

  // The id of a hardware row, inserted where it is new and brought up to the present driver. Within a
  // transaction.
  std::int64_t hardware(const HardwareKey& key) const;
  std::optional<std::int64_t> find_hardware(const HardwareKey& key) const;

  // As Cache::workload and Cache::put_winner, within a transaction. Cubins that no winner has any more stay.
  std::int64_t insert_workload(const WorkloadKey& key, const std::string& family) const;
  std::optional<std::int64_t> find_workload(const WorkloadKey& key) const;
  std::optional<Workload> find_workload(std::int64_t id) const;
  // As Cache::winner, without the rules.
  std::optional<WinnerRecord> read_winner(std::int64_t workload, WinnerParts parts) const;
  // The rules' objection to it; "" without rules.
  std::string why_untrue(std::int64_t workload, const WinnerRecord& winner, WinnerParts parts) const;
  // Whether the stored winner is as it was stored, cubins aside, and keeps the rules.
  bool is_true(std::int64_t workload) const;
  // As Cache::ranges, without the rules.
  std::vector<FamilyRange> read_ranges() const;
  void store_winner(std::int64_t workload, const WinnerRecord& winner) const;
  // Whether the present winner is this configuration with this cubin.
  bool launches_same(std::int64_t workload, const WinnerRecord& winner) const;
  // As Cache::put_range, within a transaction; `reason` of cache/history.h is why the table is replaced. Cubins that
  // nothing has any more stay.
  void store_range(const RangeKey& key, const RangeRecord& record, const std::string& reason);
  // Adds the table, unless it is damaged or there is none, to its history. Within a transaction.
  void keep_range(std::int64_t range, const std::string& reason) const;
  // Within a transaction. 0 for a launch that has none.
  std::int64_t store_cubin(const StoredLaunch& launch) const;
  // Adds the present winner, unless there is none or it is damaged, to the history. Within a transaction.
  void keep_winner(std::int64_t workload, const std::string& reason) const;

  // Makes a change that no search of the workload may run beside. Throws BrokenEnvironment if one does.
  void alone_on(std::int64_t workload, const std::function<void()>& change);
};

// A timing of a later moetune counts as the least that a server wants.
inline Timing stored_timing(const std::string& name) {
  return timing_from_name(name).value_or(Timing::alone);
}

inline constexpr const char* kDropUnusedCubins =
    "DELETE FROM cubins WHERE id NOT IN (SELECT cubin FROM winners UNION ALL"
    " SELECT fallback_cubin FROM winners WHERE fallback_cubin IS NOT NULL UNION ALL SELECT cubin FROM history"
    " UNION ALL SELECT fallback_cubin FROM history WHERE fallback_cubin IS NOT NULL"
    " UNION ALL SELECT cubin FROM range_cubins UNION ALL SELECT cubin FROM range_history_cubins)";

// Digests as SQL, for statements that write a row with its digest and that read whether both agree. They are
// macros because a statement is one literal. WORKLOAD is an expression for the workload's id.
// MADE_BY leaves out the overlapped timing, so that digests from before there were other timings still match.
#define MOETUNE_MADE_BY(ROW) \
  ROW ".toolchain || iif(" ROW ".timing = 'overlapped', '', char(10) || " ROW ".timing)"
#define MOETUNE_STORED(ROW) \
  "iif(" ROW ".timings = '', " ROW ".stored_at, moetune_digest(" ROW ".stored_at, " ROW ".timings))"
#define MOETUNE_IDENTITY_OF(WORKLOAD_ROW, HARDWARE_ROW)                             \
  "moetune_digest(" WORKLOAD_ROW ".kernel, " WORKLOAD_ROW ".problem, " HARDWARE_ROW \
  ".key,"                                                                           \
  " " WORKLOAD_ROW ".source_digest, " MOETUNE_MADE_BY(WORKLOAD_ROW) ")"
#define MOETUNE_IDENTITY(WORKLOAD) \
  "(SELECT " MOETUNE_IDENTITY_OF(  \
      "i", "j") " FROM workloads i JOIN hardware j ON j.id = i.hardware WHERE i.id = " WORKLOAD ")"
#define MOETUNE_HARDWARE_DIGEST                                                                 \
  "moetune_digest(h.key, h.name, h.compute_capability, h.sm_count, h.l2_bytes, h.memory_bytes," \
  " h.sm_clock_khz, h.memory_clock_khz, h.origin, h.driver)"
#define MOETUNE_WORKLOAD_DIGEST \
  "moetune_digest(w.kernel, w.problem, w.hardware, w.source_digest, " MOETUNE_MADE_BY("w") ", w.family)"
#define MOETUNE_TRIAL_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("t.workload") ", t.config, t.outcome, t.message, t.time_us,"      \
  " t.interval_low_us, t.interval_high_us, t.samples, t.facts, t.provenance, t.contended)"
// IDENTITY is that of the winner's workload; CUBIN and FALLBACK are the digests of its cubins.
#define MOETUNE_WINNER_DIGEST_OF(IDENTITY, CUBIN, FALLBACK)                         \
  "moetune_digest(" IDENTITY                                                        \
  ", v.config, v.time_us, v.interval_low_us,"                                       \
  " v.interval_high_us, v.default_time_us, v.roofline, v.plan, v.interface, " CUBIN \
  ", v.fallback_config, v.fallback_plan, v.fallback_interface, " FALLBACK           \
  ", v.contended, v.provenance, " MOETUNE_STORED("v") ")"
#define MOETUNE_WINNER_DIGEST                                                                                \
  MOETUNE_WINNER_DIGEST_OF(MOETUNE_IDENTITY("v.workload"), "(SELECT digest FROM cubins WHERE id = v.cubin)", \
                           "(SELECT digest FROM cubins WHERE id = v.fallback_cubin)")
#define MOETUNE_HISTORY_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("y.workload") ", y.generation, y.reason, y.replaced_at, y.config, y.time_us," \
  " y.interval_low_us, y.interval_high_us, y.default_time_us, y.roofline, y.plan, y.interface," \
  " (SELECT digest FROM cubins WHERE id = y.cubin), y.fallback_config, y.fallback_plan," \
  " y.fallback_interface, (SELECT digest FROM cubins WHERE id = y.fallback_cubin), y.contended," \
  " y.provenance, " MOETUNE_STORED("y") ")"
#define MOETUNE_RANGE_DIGEST \
  "moetune_digest(g.kernel, g.family, (SELECT key FROM hardware WHERE id = g.hardware), g.source_digest," \
  " " MOETUNE_MADE_BY("g") ", g.plan, g.progress,"                                                        \
  " iif(g.provenance = '', g.stored_at, moetune_digest(g.stored_at, g.provenance)),"                      \
  " (SELECT group_concat(one, '; ') FROM (SELECT"                                                         \
  " v.number || ' ' || v.config || ' ' || v.interface || ' ' || c.digest AS one FROM range_cubins v"      \
  " LEFT JOIN cubins c ON c.id = v.cubin WHERE v.range = g.id ORDER BY v.number)))"
#define MOETUNE_RANGE_HISTORY_DIGEST \
  "moetune_digest((SELECT moetune_digest(g.kernel, g.family, h.key, g.source_digest, " MOETUNE_MADE_BY("g") ")" \
  " FROM ranges g JOIN hardware h ON h.id = g.hardware WHERE g.id = y.range), y.generation, y.reason,"          \
  " y.replaced_at, y.plan, y.provenance, y.stored_at, (SELECT group_concat(one, '; ') FROM (SELECT"             \
  " v.number || ' ' || v.config || ' ' || v.interface || ' ' || c.digest AS one FROM range_history_cubins v"    \
  " LEFT JOIN cubins c ON c.id = v.cubin WHERE v.range = y.range AND v.generation = y.generation"               \
  " ORDER BY v.number)))"
#define MOETUNE_CALIBRATION_DIGEST "moetune_digest(h.key, c.name, c.value)"

// Whether a file may claim such a measurement of a device, in its own unit: tera-somethings a second, microseconds.
inline bool is_calibration(double value) { return value >= 1e-9 && value <= 1e9; }

// The fields by which a merge compares winners.
struct WinnerTimes {
  std::string config;
  double time_us = 0, low_us = 0, high_us = 0;
  bool contended = false;
  std::string stored_at, record;  // `record`: the digest of its row
};
// The workload's winner, unless its row or its key is damaged.
std::optional<WinnerTimes> find_winner_times(const Database& database, std::int64_t workload);

// Removes the builds past the `limit` bytes that were used last.
void drop_unused_builds(const Database& database, std::int64_t limit);

std::string build_digest(const std::string& name, const BuildRecord& build);

}  // namespace moetune
