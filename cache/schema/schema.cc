#include "cache/schema/schema.h"

#include "base/lists.h"
#include "cache/schema/schema_check.h"

namespace moetune {
namespace {

constexpr std::uintmax_t kSmallestPage = 512;

struct Identity {
  std::int64_t application = 0;
  std::int64_t version = 0;
  bool empty = false;  // of version 0, and no table yet
};

// Reads the file's header alone, except for version 0: SQLite takes longer over the tables.
Identity identity(const Database& database) {
  Identity found{database.integer_pragma("application_id"), database.integer_pragma("user_version")};
  if (found.version == 0) found.empty = !database.query("SELECT 1 FROM sqlite_schema").step();
  return found;
}

bool is_blank(const Identity& found) { return found.application == 0 && found.version == 0 && found.empty; }

// Blank files pass.
void refuse(const std::filesystem::path& path, const Identity& found) {
  if (is_blank(found)) return;
  const std::string has = path.string() + " has schema " + std::to_string(found.version);
  const std::string ours = std::to_string(kSchemaVersion);
  if (found.application != kApplicationId)
    throw BrokenEnvironment(path.string() + " is another application's SQLite database; name another file");
  if (found.version > kSchemaVersion)
    throw BrokenEnvironment(has + ", of a newer moetune; this one knows " + ours +
                            ": update moetune, or name another file");
  if (found.version < 1)
    throw BrokenEnvironment(has + ", which no moetune makes: it was altered; move it away, or name another file");
  if (found.version < kSchemaVersion)
    throw BrokenEnvironment(has + ", of a moetune before 0.1.0, and this one reads " + ours +
                            " alone; a build of 2026-11-27 brings its winners over: with that `moetune cache export"
                            " NEW.pack --cache OLD`, with this one `moetune cache import NEW.pack`");
}

// For a file whose version is today's.
void require_unaltered(const Database& database) {
  const std::string found = schema_digest(database);
  if (found == kCacheSchemaDigest || found == kSchemaDigest) return;  // spares making the tables to compare with
  const std::vector<std::string> differences = schema_differences(database);
  if (differences.empty()) return;
  throw BrokenEnvironment(database.path().string() + " is not as moetune made it: " + joined(differences, "; ") +
                          ". Move it away, or name another file");
}

}  // namespace

void refuse_foreign(const std::filesystem::path& path) {
  // SQLite would take a file shorter than any page for an empty database, and overwrite it.
  if (const auto size = std::filesystem::file_size(path); size > 0 && size < kSmallestPage) {
    throw BrokenEnvironment(path.string() + " is not a moetune cache (no SQLite database); name another file");
  }
  // Not by reading the file's header: closing a descriptor of it would drop the locks that this process's
  // other connections hold on it (POSIX). Through SQLite, as immutable, nothing is locked and no journal of
  // another's rolled back.
  const Database probe(path, Database::Access::immutable, std::chrono::milliseconds(0));
  Identity found;
  try {
    found = identity(probe);
  } catch (const BrokenEnvironment&) {
    return;  // not a database, or caught in the middle of a write; under locks the sentence will be right
  }
  refuse(path, found);
}

void make_schema(const Database& database) {
  if (!is_blank(identity(database))) return require_readable(database);
  WriteTransaction transaction(database);
  if (!is_blank(identity(database))) return require_readable(database);  // another process was first
  database.execute(kSchema);
  database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
}

bool has_cache_schema(const Database& database) {
  return database.query("SELECT 1 FROM sqlite_schema WHERE name = 'trial_counts'").step();
}

void make_cache_schema(const Database& database) {
  if (has_cache_schema(database)) return;
  WriteTransaction transaction(database);
  if (!has_cache_schema(database)) database.execute(kCacheSchema);
  transaction.commit();
}

void require_version(const Database& database) {
  const Identity found = identity(database);
  refuse(database.path(), found);
  if (found.empty)
    throw BrokenEnvironment(database.path().string() +
                            " is empty; open it for writing once, with any command that stores results");
}

void require_readable(const Database& database) {
  require_version(database);
  require_unaltered(database);
}

// The columns of winners, and of those that others replaced.
#define MOETUNE_WINNER                                                                                          \
  "config TEXT NOT NULL, time_us REAL NOT NULL, interval_low_us REAL NOT NULL, "                                \
  "interval_high_us REAL NOT NULL, default_time_us REAL NOT NULL, roofline REAL NOT NULL, plan TEXT NOT NULL, " \
  "interface TEXT NOT NULL, cubin INTEGER NOT NULL REFERENCES cubins(id), fallback_config TEXT NOT NULL, "      \
  "fallback_plan TEXT NOT NULL, fallback_interface TEXT NOT NULL, "                                             \
  "fallback_cubin INTEGER REFERENCES cubins(id), contended INTEGER NOT NULL, provenance TEXT NOT NULL, "        \
  "stored_at TEXT NOT NULL, digest TEXT NOT NULL"

// As SQLite keeps the statements. The hardware's canonical text is its identity; the columns beside it are for people
// with a SQL prompt. Blobs are zstd frames. Every row has a digest over all that it says, and those of trials and
// winners cover their workload too, so that none can be changed or moved unnoticed
// (cache/file/digest_functions.h). Cubins stand apart, because winners of one variant share theirs.
const char* const kSchema = R"sql(
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
  , digest TEXT NOT NULL DEFAULT '') STRICT;

  -- `timing`: how launches followed each other while they were timed (keys/timing.h).
  CREATE TABLE "workloads" (
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
  CREATE INDEX workloads_by_family ON workloads (kernel, family);

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
    provenance TEXT NOT NULL, contended INTEGER NOT NULL DEFAULT 0, digest TEXT NOT NULL DEFAULT '',
    UNIQUE (workload, config)
  ) STRICT;

  CREATE TABLE cubins (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    frame BLOB NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE "winners" (
    workload INTEGER PRIMARY KEY REFERENCES workloads(id) ON DELETE CASCADE,
)sql" MOETUNE_WINNER R"sql(
  , timings TEXT NOT NULL DEFAULT '') STRICT;

  -- Winners that others replaced (cache/winners.h).
  CREATE TABLE history (
    workload INTEGER NOT NULL REFERENCES workloads(id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    reason TEXT NOT NULL,
    replaced_at TEXT NOT NULL,
)sql" MOETUNE_WINNER R"sql(, timings TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (workload, generation)
  ) STRICT, WITHOUT ROWID;

  -- Tables of whole ranges of problems (cache/ranges.h). `plan` and `progress` are documents.
  CREATE TABLE "ranges" (
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
    digest TEXT NOT NULL, provenance TEXT NOT NULL DEFAULT '',
    UNIQUE (kernel, family, hardware, source_digest, toolchain, timing)
  ) STRICT;

  CREATE TABLE range_cubins (
    range INTEGER NOT NULL REFERENCES ranges(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    config TEXT NOT NULL,
    interface TEXT NOT NULL,
    cubin INTEGER NOT NULL REFERENCES cubins(id),
    PRIMARY KEY (range, number)
  ) STRICT, WITHOUT ROWID;

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
    value REAL NOT NULL, digest TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (hardware, name)
  ) STRICT, WITHOUT ROWID;

  -- One row in a pack (cache/pack.h), none in a cache.
  CREATE TABLE pack (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    manifest TEXT NOT NULL,
    digest TEXT NOT NULL
  ) STRICT;

  -- How many rows each table has, with a digest over them (cache/tallies.h).
  CREATE TABLE tallies (
    name TEXT PRIMARY KEY,
    rows INTEGER NOT NULL,
    digest INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO tallies VALUES ('hardware', 0, 0), ('workloads', 0, 0), ('trials', 0, 0), ('winners', 0, 0),
    ('history', 0, 0), ('ranges', 0, 0), ('range_history', 0, 0), ('cubins', 0, 0), ('builds', 0, 0),
    ('calibrations', 0, 0);

  -- One row while a search writes to the file and its log, which a copy of the file alone lacks (Cache::lacks_log).
  CREATE TABLE writing (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    since TEXT NOT NULL
  ) STRICT;
)sql";

#define MOETUNE_COUNT_INSERTED                                       \
  "CREATE TRIGGER trial_counts_insert AFTER INSERT ON trials BEGIN " \
  "INSERT INTO trial_counts VALUES (new.workload, new.outcome, 1) "  \
  "ON CONFLICT (workload, outcome) DO UPDATE SET trials = trials + 1; END;"
const char* const kCountInserted = MOETUNE_COUNT_INSERTED;

// Triggers of the file, so that the counts are right whoever changes trials. The indexes find who else has a cubin.
const char* const kCacheSchema = R"sql(
  CREATE TABLE trial_counts (
    workload INTEGER NOT NULL REFERENCES workloads(id) ON DELETE CASCADE,
    outcome TEXT NOT NULL,
    trials INTEGER NOT NULL,
    PRIMARY KEY (workload, outcome)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO trial_counts SELECT workload, outcome, count(*) FROM trials GROUP BY workload, outcome;
)sql" MOETUNE_COUNT_INSERTED R"sql(
  CREATE TRIGGER trial_counts_delete AFTER DELETE ON trials BEGIN
    UPDATE trial_counts SET trials = trials - 1 WHERE workload = old.workload AND outcome = old.outcome;
  END;
  CREATE TRIGGER trial_counts_update AFTER UPDATE ON trials
    WHEN old.outcome <> new.outcome OR old.workload <> new.workload BEGIN
    UPDATE trial_counts SET trials = trials - 1 WHERE workload = old.workload AND outcome = old.outcome;
    INSERT INTO trial_counts VALUES (new.workload, new.outcome, 1)
      ON CONFLICT (workload, outcome) DO UPDATE SET trials = trials + 1;
  END;
  CREATE INDEX winners_by_cubin ON winners (cubin);
  CREATE INDEX winners_by_fallback_cubin ON winners (fallback_cubin);
  CREATE INDEX history_by_cubin ON history (cubin);
  CREATE INDEX history_by_fallback_cubin ON history (fallback_cubin);
  CREATE INDEX range_cubins_by_cubin ON range_cubins (cubin);
  CREATE INDEX range_history_cubins_by_cubin ON range_history_cubins (cubin);
)sql";

const char* const kDropCacheSchema = R"sql(
  DROP TRIGGER IF EXISTS trial_counts_insert;
  DROP TRIGGER IF EXISTS trial_counts_delete;
  DROP TRIGGER IF EXISTS trial_counts_update;
  DROP TABLE IF EXISTS trial_counts;
  DROP INDEX IF EXISTS winners_by_cubin;
  DROP INDEX IF EXISTS winners_by_fallback_cubin;
  DROP INDEX IF EXISTS history_by_cubin;
  DROP INDEX IF EXISTS history_by_fallback_cubin;
  DROP INDEX IF EXISTS range_cubins_by_cubin;
  DROP INDEX IF EXISTS range_history_cubins_by_cubin;
)sql";

}  // namespace moetune
