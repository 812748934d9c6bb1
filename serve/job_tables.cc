#include "serve/job_tables.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/job_document.h"

namespace moetune {
namespace {

constexpr std::int64_t kQueueApplication = 0x6d6f6a71;  // "mojq"
constexpr std::int64_t kQueueVersion = 4;

constexpr const char* kTables = R"sql(
  CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    device TEXT NOT NULL,
    state INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    weight REAL NOT NULL,
    requests INTEGER NOT NULL,  -- that were joined into it and not withdrawn, misses included
    deadline INTEGER NOT NULL,
    created INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    error TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    quiet INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    ending INTEGER NOT NULL DEFAULT 0,  -- the state in which it will end; 0: it is not ended
    shown TEXT NOT NULL DEFAULT '{}',   -- what lists show of its request
    bytes INTEGER NOT NULL DEFAULT 0,   -- of its request
    misses INTEGER NOT NULL DEFAULT 0   -- those of its requests that nobody waits for
  ) STRICT;
  CREATE INDEX jobs_by_turn ON jobs (state, priority DESC, weight DESC, id);
  CREATE UNIQUE INDEX jobs_open ON jobs (digest) WHERE state < 2 AND ending = 0;
  CREATE INDEX jobs_by_end ON jobs (ended, id) WHERE state > 1;
  CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE state < 2 AND ending = 0;
)sql";

constexpr const char* kTickets = R"sql(
  CREATE TABLE tickets (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    ticket TEXT NOT NULL,
    PRIMARY KEY (job, ticket)
  ) STRICT, WITHOUT ROWID;
)sql";

// What each request asks for, so that the job falls back to the others' once one is withdrawn. The ticket '' is of all
// misses together.
constexpr const char* kWishes = R"sql(
  ALTER TABLE tickets ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE tickets ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;
)sql";

// Apart from `jobs`: SQLite reads all of a long text before it reaches the columns behind it.
constexpr const char* kTexts = R"sql(
  CREATE TABLE job_texts (
    job INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    request TEXT NOT NULL,
    result TEXT NOT NULL
  ) STRICT;
  CREATE INDEX jobs_by_size ON jobs (bytes) WHERE state < 2;
)sql";

void add_quiet_columns(const Database& database) {
  database.execute(
      "ALTER TABLE jobs ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE jobs ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0");
}

void add_endings_and_tickets(const Database& database) {
  database.execute(
      "ALTER TABLE jobs ADD COLUMN ending INTEGER NOT NULL DEFAULT 0;"
      "DROP INDEX jobs_open;"
      "CREATE UNIQUE INDEX jobs_open ON jobs (digest) WHERE state < 2 AND ending = 0;"
      "CREATE INDEX jobs_by_end ON jobs (ended, id) WHERE state > 1;"
      "CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE state < 2 AND ending = 0");
  database.execute(kTickets);
}

void move_texts(const Database& database) {
  database.execute(
      "ALTER TABLE jobs ADD COLUMN shown TEXT NOT NULL DEFAULT '{}';"
      "ALTER TABLE jobs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0");
  database.execute(kTexts);
  database.execute("INSERT INTO job_texts (job, request, result) SELECT id, request, result FROM jobs");
  database.execute("ALTER TABLE jobs DROP COLUMN request; ALTER TABLE jobs DROP COLUMN result");
  std::vector<std::int64_t> ids;
  {
    Query rows = database.query("SELECT job FROM job_texts");
    while (rows.step()) ids.push_back(rows.integer(0));
  }
  for (const std::int64_t id : ids) {
    std::string request;
    {
      Query row = database.query("SELECT request FROM job_texts WHERE job = ?", id);
      if (row.step()) request = row.text(0);
    }
    database.run("UPDATE jobs SET shown = ?, bytes = ? WHERE id = ?",
                 shown_of_request(parse_json_or_discard(request)), static_cast<std::int64_t>(request.size()),
                 id);
  }
}

// Of a job that misses and clients share it is not known which wishes were whose: it keeps what it has.
void add_wishes(const Database& database) {
  database.execute("ALTER TABLE jobs ADD COLUMN misses INTEGER NOT NULL DEFAULT 0");
  database.execute(kWishes);
  database.execute(
      "UPDATE jobs SET misses = requests WHERE quiet = 1;"
      "INSERT INTO tickets (job, ticket) SELECT id, '' FROM jobs WHERE state < 2 AND quiet = 1;"
      "UPDATE tickets SET (priority, deadline) ="
      " (SELECT jobs.priority, jobs.deadline FROM jobs WHERE jobs.id = tickets.job)");
}

bool is_empty(const Database& database) {
  Query rows = database.query("SELECT count(*) FROM sqlite_master");
  return rows.step() && rows.integer(0) == 0;
}

}  // namespace

void prepare_job_tables(const Database& database) {
  const bool is_new = is_empty(database);
  const std::int64_t version = is_new ? 0 : database.integer_pragma("user_version");
  const bool is_queue = database.integer_pragma("application_id") == kQueueApplication && version >= 1 &&
                        version <= kQueueVersion;
  if (!is_new && !is_queue)
    throw BrokenEnvironment(database.path().string() +
                            " is no queue of this moetune's service; move it away, or name another");
  if (version == kQueueVersion) return;
  WriteTransaction all(database);
  if (is_new) {
    database.execute(kTables);
    database.execute(kTickets);
    database.execute(kWishes);
    database.execute(kTexts);
    database.execute("PRAGMA application_id = " + std::to_string(kQueueApplication));
  } else {
    if (version < 2) add_quiet_columns(database);
    if (version < 3) add_endings_and_tickets(database);
    move_texts(database);
    add_wishes(database);
  }
  database.execute("PRAGMA user_version = " + std::to_string(kQueueVersion));
  all.commit();
}

}  // namespace moetune
