// What a Cache holds; shared by the files that implement its parts (trials, winners, builds, checks).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cache/cache.h"
#include "cache/database.h"
#include "cache/search_locks.h"

namespace moetune {

struct Cache::Impl {
  Database database;
  CacheOptions options;
  bool read_only = false;
  std::string warning;
  SearchLocks searches;
  std::optional<PackManifest> pack;
  std::int64_t schema = 0;  // of the file

  // The id of a hardware row, inserted where it is new and brought up to the present driver. Within a
  // transaction.
  std::int64_t hardware(const HardwareKey& key) const;
  std::optional<std::int64_t> find_hardware(const HardwareKey& key) const;

  // As Cache::workload and Cache::put_winner, within a transaction. Cubins that no winner has any more stay.
  std::int64_t insert_workload(const WorkloadKey& key, const std::string& family) const;
  std::optional<std::int64_t> find_workload(const WorkloadKey& key) const;
  void store_winner(std::int64_t workload, const WinnerRecord& winner) const;
  // Adds the present winner, unless there is none or it is damaged, to the history. Within a transaction.
  void keep_winner(std::int64_t workload, const std::string& reason) const;

  // Makes a change that no search of the workload may run beside. Throws BrokenEnvironment if one does.
  void alone_on(std::int64_t workload, const std::function<void()>& change);
};

inline constexpr const char* kDropUnusedCubins =
    "DELETE FROM cubins WHERE id NOT IN (SELECT cubin FROM winners UNION ALL"
    " SELECT fallback_cubin FROM winners WHERE fallback_cubin IS NOT NULL UNION ALL SELECT cubin FROM history"
    " UNION ALL SELECT fallback_cubin FROM history WHERE fallback_cubin IS NOT NULL)";

// Digests as SQL, for statements that write a row with its digest and that read whether both agree. They are
// macros because a statement is one literal. WORKLOAD is an expression for the workload's id.
#define MOETUNE_IDENTITY(WORKLOAD)                                                   \
  "(SELECT moetune_digest(i.kernel, i.problem, j.key, i.source_digest, i.toolchain)" \
  " FROM workloads i JOIN hardware j ON j.id = i.hardware WHERE i.id = " WORKLOAD ")"
#define MOETUNE_HARDWARE_DIGEST                                                                 \
  "moetune_digest(h.key, h.name, h.compute_capability, h.sm_count, h.l2_bytes, h.memory_bytes," \
  " h.sm_clock_khz, h.memory_clock_khz, h.origin, h.driver)"
#define MOETUNE_WORKLOAD_DIGEST \
  "moetune_digest(w.kernel, w.problem, w.hardware, w.source_digest, w.toolchain, w.family)"
#define MOETUNE_TRIAL_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("t.workload") ", t.config, t.outcome, t.message, t.time_us,"      \
  " t.interval_low_us, t.interval_high_us, t.samples, t.facts, t.provenance, t.contended)"
#define MOETUNE_WINNER_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("v.workload") ", v.config, v.time_us, v.interval_low_us,"               \
  " v.interval_high_us, v.default_time_us, v.roofline, v.plan, v.interface,"                                 \
  " (SELECT digest FROM cubins WHERE id = v.cubin), v.fallback_config, v.fallback_plan,"                     \
  " v.fallback_interface, (SELECT digest FROM cubins WHERE id = v.fallback_cubin), v.contended,"             \
  " v.provenance, v.stored_at)"
#define MOETUNE_RIVAL_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("r.workload") ", r.config, r.time_us, r.interval_low_us,"              \
  " r.interval_high_us, r.contended, r.provenance, r.stored_at, r.record)"
#define MOETUNE_HISTORY_DIGEST \
  "moetune_digest(" MOETUNE_IDENTITY("y.workload") ", y.generation, y.reason, y.replaced_at, y.config, y.time_us," \
  " y.interval_low_us, y.interval_high_us, y.default_time_us, y.roofline, y.plan, y.interface," \
  " (SELECT digest FROM cubins WHERE id = y.cubin), y.fallback_config, y.fallback_plan," \
  " y.fallback_interface, (SELECT digest FROM cubins WHERE id = y.fallback_cubin), y.contended," \
  " y.provenance, y.stored_at)"
#define MOETUNE_CALIBRATION_DIGEST "moetune_digest(h.key, c.name, c.value)"

// Removes the builds past the `limit` bytes that were used last.
void drop_unused_builds(const Database& database, std::int64_t limit);

std::string build_digest(const std::string& name, const BuildRecord& build);

}  // namespace moetune
