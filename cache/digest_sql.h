// The digest of each kind of row, as SQL for statements that write a row with it and for those that read whether both
// agree. Macros, because a statement is one literal. For cache/ alone.
#pragma once

// WORKLOAD is an expression for the workload's id.
// MADE_BY leaves out the overlapped timing, so that digests from before there were other timings still match.
#define MOETUNE_MADE_BY(ROW) ROW ".toolchain || iif(" ROW ".timing = 'overlapped', '', char(10) || " ROW ".timing)"
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
// IDENTITY is that of the record's workload; CUBIN and FALLBACK are the digests of a winner's cubins.
#define MOETUNE_TRIAL_DIGEST_OF(IDENTITY)                           \
  "moetune_digest(" IDENTITY                                        \
  ", t.config, t.outcome, t.message, t.time_us, t.interval_low_us," \
  " t.interval_high_us, t.samples, t.facts, t.provenance, t.contended)"
#define MOETUNE_TRIAL_DIGEST MOETUNE_TRIAL_DIGEST_OF(MOETUNE_IDENTITY("t.workload"))
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
