// The migrations of a cache file, from an empty one to that of today. One that has shipped is never edited.
#include "cache/schema/schema.h"

namespace moetune {
namespace {

// The hardware's canonical text is its identity; the columns beside it are for people with a SQL prompt and
// for packs. Blobs are zstd frames.
constexpr const char* kFirst = R"sql(
  CREATE TABLE hardware (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    compute_capability INTEGER NOT NULL,
    sm_count INTEGER NOT NULL,
    l2_bytes INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,
    sm_clock_khz INTEGER NOT NULL,
    memory_clock_khz INTEGER NOT NULL,
    origin TEXT NOT NULL,
    driver TEXT NOT NULL
  ) STRICT;

  CREATE TABLE workloads (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL,
    problem TEXT NOT NULL,
    hardware INTEGER NOT NULL REFERENCES hardware(id),
    source_digest TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    UNIQUE (kernel, problem, hardware, source_digest, toolchain)
  ) STRICT;

  CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    workload INTEGER NOT NULL REFERENCES workloads(id) ON DELETE CASCADE,
    config TEXT NOT NULL,
    outcome TEXT NOT NULL,
    message TEXT NOT NULL,
    time_us REAL NOT NULL,
    interval_low_us REAL NOT NULL,
    interval_high_us REAL NOT NULL,
    samples INTEGER NOT NULL,
    facts TEXT NOT NULL,
    provenance TEXT NOT NULL,
    UNIQUE (workload, config)
  ) STRICT;

  CREATE TABLE winners (
    workload INTEGER PRIMARY KEY REFERENCES workloads(id) ON DELETE CASCADE,
    config TEXT NOT NULL,
    time_us REAL NOT NULL,
    interval_low_us REAL NOT NULL,
    interval_high_us REAL NOT NULL,
    default_time_us REAL NOT NULL,
    roofline REAL NOT NULL,
    plan TEXT NOT NULL,
    cubin BLOB NOT NULL,
    cubin_bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,
    provenance TEXT NOT NULL,
    stored_at TEXT NOT NULL
  ) STRICT;

  CREATE TABLE builds (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    outcome TEXT NOT NULL,
    facts TEXT NOT NULL,
    log TEXT NOT NULL,
    cubin BLOB NOT NULL,
    cubin_bytes INTEGER NOT NULL,
    digest TEXT NOT NULL,
    stored_bytes INTEGER NOT NULL,
    used INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX builds_by_use ON builds (used, stored_bytes);

  CREATE TABLE calibrations (
    hardware INTEGER NOT NULL REFERENCES hardware(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (hardware, name)
  ) STRICT, WITHOUT ROWID;
)sql";

// Every row has a digest over all that it says, and those of trials and winners cover their workload too, so
// that none can be changed or moved unnoticed (cache/file/digest_functions.h). Cubins stand apart, because winners
// of one variant share theirs. Builds are dropped: they can be made again.
constexpr const char* kSecond = R"sql(
  ALTER TABLE hardware ADD COLUMN digest TEXT NOT NULL DEFAULT '';
  UPDATE hardware SET digest = moetune_digest(key, name, compute_capability, sm_count, l2_bytes, memory_bytes,
    sm_clock_khz, memory_clock_khz, origin, driver);

  ALTER TABLE workloads ADD COLUMN family TEXT NOT NULL DEFAULT '';
  ALTER TABLE workloads ADD COLUMN digest TEXT NOT NULL DEFAULT '';
  UPDATE workloads SET digest = moetune_digest(kernel, problem, hardware, source_digest, toolchain, family);
  CREATE INDEX workloads_by_family ON workloads (kernel, family);

  ALTER TABLE trials ADD COLUMN contended INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE trials ADD COLUMN digest TEXT NOT NULL DEFAULT '';
  UPDATE trials SET digest = moetune_digest(
    (SELECT moetune_digest(w.kernel, w.problem, h.key, w.source_digest, w.toolchain)
     FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.id = trials.workload),
    config, outcome, message, time_us, interval_low_us, interval_high_us, samples, facts, provenance, contended);

  ALTER TABLE calibrations ADD COLUMN digest TEXT NOT NULL DEFAULT '';
  UPDATE calibrations SET digest = moetune_digest(
    (SELECT key FROM hardware WHERE id = calibrations.hardware), name, value);

  CREATE TABLE cubins (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    frame BLOB NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;
  INSERT OR IGNORE INTO cubins (digest, frame, bytes)
    SELECT coalesce(moetune_unpacked_digest(cubin, cubin_bytes), 'damaged ' || workload), cubin, cubin_bytes
    FROM winners;

  CREATE TABLE winners_of_2 (
    workload INTEGER PRIMARY KEY REFERENCES workloads(id) ON DELETE CASCADE,
    config TEXT NOT NULL,
    time_us REAL NOT NULL,
    interval_low_us REAL NOT NULL,
    interval_high_us REAL NOT NULL,
    default_time_us REAL NOT NULL,
    roofline REAL NOT NULL,
    plan TEXT NOT NULL,
    interface TEXT NOT NULL,
    cubin INTEGER NOT NULL REFERENCES cubins(id),
    fallback_config TEXT NOT NULL,
    fallback_plan TEXT NOT NULL,
    fallback_interface TEXT NOT NULL,
    fallback_cubin INTEGER REFERENCES cubins(id),
    contended INTEGER NOT NULL,
    provenance TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    digest TEXT NOT NULL
  ) STRICT;
  INSERT INTO winners_of_2
    SELECT v.workload, v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.default_time_us, v.roofline,
      v.plan, '', c.id, '', '', '', NULL, 0, v.provenance, v.stored_at,
      iif(v.digest = moetune_joined_digest(v.config, v.plan, c.digest), moetune_digest(
        (SELECT moetune_digest(w.kernel, w.problem, h.key, w.source_digest, w.toolchain)
         FROM workloads w JOIN hardware h ON h.id = w.hardware WHERE w.id = v.workload),
        v.config, v.time_us, v.interval_low_us, v.interval_high_us, v.default_time_us, v.roofline, v.plan, '',
        c.digest, '', '', '', NULL, 0, v.provenance, v.stored_at), 'damaged')
    FROM winners v JOIN cubins c
      ON c.digest = coalesce(moetune_unpacked_digest(v.cubin, v.cubin_bytes), 'damaged ' || v.workload);
  DROP TABLE winners;
  ALTER TABLE winners_of_2 RENAME TO winners;

  -- One row in a pack (cache/pack.h), none in a cache.
  CREATE TABLE pack (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    manifest TEXT NOT NULL,
    digest TEXT NOT NULL
  ) STRICT;

  DELETE FROM builds;
)sql";

// What a merge leaves to a duel (cache/duels.h), and winners that others replaced (cache/history.h).
constexpr const char* kThird = R"sql(
  CREATE TABLE rivals (
    workload INTEGER NOT NULL REFERENCES workloads(id) ON DELETE CASCADE,
    config TEXT NOT NULL,
    time_us REAL NOT NULL,
    interval_low_us REAL NOT NULL,
    interval_high_us REAL NOT NULL,
    contended INTEGER NOT NULL,
    provenance TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    record TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (workload, config)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE history (
    workload INTEGER NOT NULL REFERENCES workloads(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    reason TEXT NOT NULL,
    replaced_at TEXT NOT NULL,
    config TEXT NOT NULL,
    time_us REAL NOT NULL,
    interval_low_us REAL NOT NULL,
    interval_high_us REAL NOT NULL,
    default_time_us REAL NOT NULL,
    roofline REAL NOT NULL,
    plan TEXT NOT NULL,
    interface TEXT NOT NULL,
    cubin INTEGER NOT NULL REFERENCES cubins(id),
    fallback_config TEXT NOT NULL,
    fallback_plan TEXT NOT NULL,
    fallback_interface TEXT NOT NULL,
    fallback_cubin INTEGER REFERENCES cubins(id),
    contended INTEGER NOT NULL,
    provenance TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (workload, generation)
  ) STRICT, WITHOUT ROWID;
)sql";

// Tables of whole ranges of problems (cache/ranges.h). `plan` and `progress` are documents.
constexpr const char* kFourth = R"sql(
  CREATE TABLE ranges (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL,
    family TEXT NOT NULL,
    hardware INTEGER NOT NULL REFERENCES hardware(id),
    source_digest TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    plan TEXT NOT NULL,
    progress TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    digest TEXT NOT NULL,
    UNIQUE (kernel, family, hardware, source_digest, toolchain)
  ) STRICT;

  CREATE TABLE range_cubins (
    range INTEGER NOT NULL REFERENCES ranges(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    config TEXT NOT NULL,
    interface TEXT NOT NULL,
    cubin INTEGER NOT NULL REFERENCES cubins(id),
    PRIMARY KEY (range, number)
  ) STRICT, WITHOUT ROWID;
)sql";

// How launches followed each other while they were timed (keys/timing.h): of a workload and a range table a part of
// what they are; of a winner its times under all of them, a document. Tables with another key are made anew, for which
// migrate() suspends references between rows.
constexpr const char* kFifth = R"sql(
  CREATE TABLE workloads_of_5 (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL,
    problem TEXT NOT NULL,
    hardware INTEGER NOT NULL REFERENCES hardware(id),
    source_digest TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    timing TEXT NOT NULL DEFAULT 'overlapped',
    family TEXT NOT NULL DEFAULT '',
    digest TEXT NOT NULL DEFAULT '',
    UNIQUE (kernel, problem, hardware, source_digest, toolchain, timing)
  ) STRICT;
  INSERT INTO workloads_of_5 (id, kernel, problem, hardware, source_digest, toolchain, family, digest)
    SELECT id, kernel, problem, hardware, source_digest, toolchain, family, digest FROM workloads;
  DROP TABLE workloads;
  ALTER TABLE workloads_of_5 RENAME TO workloads;
  CREATE INDEX workloads_by_family ON workloads (kernel, family);

  CREATE TABLE ranges_of_5 (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL,
    family TEXT NOT NULL,
    hardware INTEGER NOT NULL REFERENCES hardware(id),
    source_digest TEXT NOT NULL,
    toolchain TEXT NOT NULL,
    timing TEXT NOT NULL DEFAULT 'overlapped',
    plan TEXT NOT NULL,
    progress TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    digest TEXT NOT NULL,
    UNIQUE (kernel, family, hardware, source_digest, toolchain, timing)
  ) STRICT;
  INSERT INTO ranges_of_5 (id, kernel, family, hardware, source_digest, toolchain, plan, progress, stored_at, digest)
    SELECT id, kernel, family, hardware, source_digest, toolchain, plan, progress, stored_at, digest FROM ranges;
  DROP TABLE ranges;
  ALTER TABLE ranges_of_5 RENAME TO ranges;

  ALTER TABLE winners ADD COLUMN timings TEXT NOT NULL DEFAULT '';
  ALTER TABLE history ADD COLUMN timings TEXT NOT NULL DEFAULT '';
)sql";

// What a range table is due to, and the tables that others replaced (cache/range_history.cc).
constexpr const char* kSixth = R"sql(
  ALTER TABLE ranges ADD COLUMN provenance TEXT NOT NULL DEFAULT '';

  CREATE TABLE range_history (
    range INTEGER NOT NULL REFERENCES ranges(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    reason TEXT NOT NULL,
    replaced_at TEXT NOT NULL,
    plan TEXT NOT NULL,
    provenance TEXT NOT NULL,
    stored_at TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (range, generation)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE range_history_cubins (
    range INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    config TEXT NOT NULL,
    interface TEXT NOT NULL,
    cubin INTEGER NOT NULL REFERENCES cubins(id),
    PRIMARY KEY (range, generation, number),
    FOREIGN KEY (range, generation) REFERENCES range_history(range, generation) ON DELETE CASCADE
  ) STRICT, WITHOUT ROWID;
)sql";

// How many rows each table has, with a digest over them (cache/tallies.h), and one row while a search writes to the
// file and its log, which a copy of the file alone lacks (Cache::lacks_log).
constexpr const char* kSeventh = R"sql(
  CREATE TABLE tallies (
    name TEXT PRIMARY KEY,
    rows INTEGER NOT NULL,
    digest INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO tallies
    SELECT 'hardware', count(*), moetune_tally(digest) FROM hardware UNION ALL
    SELECT 'workloads', count(*), moetune_tally(digest) FROM workloads UNION ALL
    SELECT 'trials', count(*), moetune_tally(digest) FROM trials UNION ALL
    SELECT 'winners', count(*), moetune_tally(digest) FROM winners UNION ALL
    SELECT 'rivals', count(*), moetune_tally(digest) FROM rivals UNION ALL
    SELECT 'history', count(*), moetune_tally(digest) FROM history UNION ALL
    SELECT 'ranges', count(*), moetune_tally(digest) FROM ranges UNION ALL
    SELECT 'range_history', count(*), moetune_tally(digest) FROM range_history UNION ALL
    SELECT 'cubins', count(*), moetune_tally(digest) FROM cubins UNION ALL
    SELECT 'builds', count(*), moetune_tally(digest) FROM builds UNION ALL
    SELECT 'calibrations', count(*), moetune_tally(digest) FROM calibrations;

  CREATE TABLE writing (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    since TEXT NOT NULL
  ) STRICT;
)sql";

constexpr const char* kMigrations[] = {kFirst, kSecond, kThird, kFourth, kFifth, kSixth, kSeventh};

}  // namespace

std::span<const char* const> migrations() { return kMigrations; }

std::string_view known_schema_digest(std::int64_t version) {
  switch (version) {
    case 6:
      return "4745bfaac6c153e7aaa35032e0cf9882";
    case 7:
      return "067f0a251376f25bb89f31593f73213b";
    default:
      return "";
  }
}

}  // namespace moetune
