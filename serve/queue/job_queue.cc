#include "serve/queue/job_queue.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/digest.h"
#include "base/random_text.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::array<std::string_view, 5> kStateNames = {"queued", "running", "done", "failed", "cancelled"};

constexpr std::int64_t kQueueApplication = 0x6d6f6a71;  // "mojq"
constexpr std::int64_t kQueueVersion = 5;

// The long texts are the last columns: SQLite reads all of one before it reaches the columns behind it.
constexpr const char* kTables = R"sql(
  CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,       -- of kind, device and request: equal for equal requests
    device TEXT NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    ending INTEGER NOT NULL DEFAULT 0,  -- the state in which a running job will end; 0: it goes on
    requests INTEGER NOT NULL DEFAULT 0,  -- these four sum up the table of requests
    priority INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    quiet INTEGER NOT NULL,
    weight REAL NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    started INTEGER NOT NULL DEFAULT 0,
    ended INTEGER NOT NULL DEFAULT 0,
    starts INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER NOT NULL DEFAULT -1,
    bytes INTEGER NOT NULL,  -- of the request
    shown TEXT NOT NULL,     -- what lists show of the request
    error TEXT NOT NULL DEFAULT '',
    request TEXT NOT NULL,
    result TEXT NOT NULL DEFAULT ''
  ) STRICT;
  CREATE INDEX jobs_by_turn ON jobs (state, priority DESC, weight DESC, id);
  CREATE UNIQUE INDEX jobs_open ON jobs (digest) WHERE state < 2 AND ending = 0;
  CREATE INDEX jobs_by_end ON jobs (ended, id) WHERE state > 1;
  CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE state < 2 AND ending = 0;
  CREATE INDEX jobs_by_size ON jobs (bytes, quiet, ending) WHERE state < 2;
  CREATE TABLE requests (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    ticket TEXT NOT NULL,  -- '' of a missed shape, whose posts are one request
    priority INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    PRIMARY KEY (job, ticket)
  ) STRICT, WITHOUT ROWID;
)sql";

#define MOETUNE_JOB_FIELDS                                                                                        \
  "SELECT id, kind, shown, device, state, priority, weight, requests, deadline, created, started, ended, starts," \
  " quiet, error, exit_code, not_before, ending"
#define MOETUNE_LISTED_JOBS MOETUNE_JOB_FIELDS ", '', '' FROM jobs "
#define MOETUNE_WHOLE_JOBS MOETUNE_JOB_FIELDS ", request, result FROM jobs "

constexpr std::size_t kTicketBytes = 16;

std::int64_t unix_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

int number_of(JobState state) { return static_cast<int>(state); }

std::string digest_of(const JobRecord& job) {
  return DigestBuilder().add(job.kind).add(job.device).add(job.request).finish();
}

JobRecord record_of(const Query& row) {
  JobRecord job{.id = row.integer(0),
                .kind = row.text(1),
                .request = row.text(18),
                .shown = row.text(2),
                .device = row.text(3),
                .state = static_cast<JobState>(std::min<std::int64_t>(4, std::max<std::int64_t>(0, row.integer(4)))),
                .priority = row.integer(5),
                .weight = row.real(6),
                .quiet = row.integer(13) != 0,
                .ending = row.integer(17) != 0,
                .not_before = row.integer(13) != 0 ? row.integer(16) : 0,
                .requests = row.integer(7),
                .deadline = row.integer(8),
                .created = row.integer(9),
                .started = row.integer(10),
                .ended = row.integer(11),
                .starts = row.integer(12),
                .result = row.text(19),
                .error = row.text(14),
                .exit_code = {}};
  if (row.integer(15) >= 0) job.exit_code = static_cast<int>(row.integer(15));
  return job;
}

std::vector<JobRecord> records_of(Query rows) {
  std::vector<JobRecord> jobs;
  while (rows.step()) jobs.push_back(record_of(rows));
  return jobs;
}

std::optional<JobRecord> first_of(Query rows) {
  if (!rows.step()) return std::nullopt;
  return record_of(rows);
}

// The first number of the first row, 0 if there is none. Ends its statement, as committing wants it.
std::int64_t count_rows(Query row) { return row.step() ? row.integer(0) : 0; }

// Makes the tables in a new file. Throws for a file that is no queue, or that of another version.
void prepare(const Database& database) {
  const std::string file = database.path().string();
  if (count_rows(database.query("SELECT count(*) FROM sqlite_master")) == 0) {
    WriteTransaction all(database);
    database.execute(kTables);
    database.execute("PRAGMA application_id = " + std::to_string(kQueueApplication));
    database.execute("PRAGMA user_version = " + std::to_string(kQueueVersion));
    return all.commit();
  }
  if (database.integer_pragma("application_id") != kQueueApplication)
    throw BrokenEnvironment(file + " is no queue of moetune's service; move it away, or name another");
  if (const std::int64_t version = database.integer_pragma("user_version"); version != kQueueVersion)
    throw BrokenEnvironment(file + " is the queue of another version of moetune (" + std::to_string(version) +
                            ", and this one's is " + std::to_string(kQueueVersion) +
                            "): move it away, and submit again what had not ended; trials and winners are in "
                            "the cache");
}

}  // namespace

std::string_view job_state_name(JobState state) { return kStateNames[static_cast<std::size_t>(state)]; }

std::optional<JobState> job_state_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) return static_cast<JobState>(i);
  }
  return std::nullopt;
}

JobQueue::JobQueue(const std::filesystem::path& file, Limits limits)
    : limits_(limits), database_((require_regular_file(file), file), Database::Access::create, limits.patience) {
  prepare(database_);  // first: a file that is no queue stays as it is
  database_.set_journal("wal");
  database_.execute("PRAGMA cache_size = -512");   // KiB; the file of a long life fills whatever it may
  database_.execute("PRAGMA synchronous = FULL");  // a job that was accepted outlives a power cut
  database_.execute("PRAGMA foreign_keys = ON");
}

void JobQueue::take_over() {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  database_.run("UPDATE jobs SET state = ending, ended = ? WHERE state = 1 AND ending > 0", unix_now());
  database_.run("UPDATE jobs SET state = 0 WHERE state = 1");
  all.commit();
}

// The open job with this digest; 0 if there is none.
std::int64_t JobQueue::find_equal(const std::string& digest) const {
  return count_rows(database_.query("SELECT id FROM jobs WHERE digest = ? AND state < 2 AND ending = 0", digest));
}

std::int64_t JobQueue::insert(const JobRecord& job, const std::string& digest) {
  const std::int64_t quiet = job.quiet ? 1 : 0;
  database_.run(
      "INSERT INTO jobs (kind, shown, bytes, digest, device, priority, deadline, created, quiet, request)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      job.kind, job.shown, static_cast<std::int64_t>(job.request.size()), digest, job.device, job.priority,
      job.deadline, unix_now(), quiet, job.request);
  return count_rows(database_.query("SELECT last_insert_rowid()"));
}

JobRecord JobQueue::add_request(std::int64_t id, const std::string& ticket, const JobRecord& job) {
  database_.run(
      "INSERT INTO requests (job, ticket, priority, deadline) VALUES (?, ?, ?, ?)"
      " ON CONFLICT (job, ticket) DO UPDATE SET priority = max(priority, excluded.priority),"
      " deadline = CASE WHEN min(deadline, excluded.deadline) = 0 THEN 0 ELSE max(deadline, excluded.deadline) END",
      id, ticket, job.priority, job.deadline);
  database_.run("UPDATE jobs SET weight = min(weight + ?, ?) WHERE id = ?", job.weight, limits_.weight, id);
  sum_up_requests(id);
  return require(id);
}

// A job without any keeps what it had.
void JobQueue::sum_up_requests(std::int64_t id) {
  database_.run(
      "UPDATE jobs SET (requests, quiet, priority, deadline) = (SELECT count(*),"
      " coalesce(min(r.ticket = ''), jobs.quiet), coalesce(max(r.priority), jobs.priority),"
      " coalesce(CASE WHEN min(r.deadline) = 0 THEN 0 ELSE max(r.deadline) END, jobs.deadline)"
      " FROM requests r WHERE r.job = jobs.id) WHERE id = ?",
      id);
}

JobQueue::Open JobQueue::count_open() const {
  Query row = database_.query(
      "SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(quiet AND ending = 0), 0) FROM jobs WHERE state < 2");
  row.step();
  const auto number = [&](int column) { return static_cast<std::uintmax_t>(row.integer(column)); };
  return {.jobs = number(0), .bytes = number(1), .missed = number(2)};
}

// "" if the job has room beside those that are open.
std::string JobQueue::why_full(const Open& open, const JobRecord& job) const {
  if (open.jobs >= limits_.open) return "the queue is full: " + std::to_string(limits_.open) + " jobs are open";
  if (job.quiet && open.missed >= limits_.missed)
    return "the queue is full: it holds " + std::to_string(limits_.missed) + " missed shapes";
  if (open.bytes + job.request.size() > limits_.open_bytes)
    return "the queue is full: the requests of its open jobs may have " + std::to_string(limits_.open_bytes) +
           " bytes in all, and this one has " + std::to_string(job.request.size());
  return "";
}

std::vector<JobQueue::Submitted> JobQueue::submit(const std::vector<JobRecord>& jobs) {
  std::vector<Submitted> all;
  const std::lock_guard lock(mutex_);
  WriteTransaction transaction(database_);
  Open open = count_open();
  for (const JobRecord& job : jobs) {
    Submitted& one = all.emplace_back();
    const std::string digest = digest_of(job);
    std::int64_t id = find_equal(digest);
    one.joined = id != 0;
    if (!one.joined) {
      one.full = why_full(open, job);
      if (!one.full.empty()) continue;
      id = insert(job, digest);
      open = {
          .jobs = open.jobs + 1, .bytes = open.bytes + job.request.size(), .missed = open.missed + (job.quiet ? 1 : 0)};
    }
    if (!job.quiet) one.ticket = random_hex(kTicketBytes);
    one.job = add_request(id, one.ticket, job);
  }
  transaction.commit();
  return all;
}

JobQueue::Submitted JobQueue::submit(const JobRecord& job) {
  Submitted one = std::move(submit(std::vector{job}).front());
  if (!one.full.empty()) throw QueueFull(one.full);
  return one;
}

JobRecord JobQueue::require(std::int64_t id) const {
  return first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id)).value();
}

std::optional<JobRecord> JobQueue::find(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  return first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id));
}

std::vector<JobRecord> JobQueue::list(const Filter& filter) const {
  const std::lock_guard lock(mutex_);
  const int state = filter.state ? number_of(*filter.state) : -1;
  return records_of(database_.query(
      MOETUNE_LISTED_JOBS "WHERE id > ? AND (? < 0 OR state = ?) AND (? = '' OR kind = ?) ORDER BY id LIMIT ?",
      filter.after, state, state, filter.kind, filter.kind, filter.limit));
}

std::vector<JobRecord> JobQueue::latest(std::size_t count) const {
  const std::lock_guard lock(mutex_);
  return records_of(database_.query(MOETUNE_LISTED_JOBS "WHERE state > 1 ORDER BY ended DESC, id DESC LIMIT ?",
                                    static_cast<std::int64_t>(count)));
}

std::map<JobState, std::int64_t> JobQueue::counts() const {
  const std::lock_guard lock(mutex_);
  std::map<JobState, std::int64_t> counts;
  Query rows = database_.query("SELECT state, count(*) FROM jobs GROUP BY state");
  while (rows.step()) counts[static_cast<JobState>(rows.integer(0))] = rows.integer(1);
  return counts;
}

std::int64_t JobQueue::oldest_queued() const {
  const std::lock_guard lock(mutex_);
  return count_rows(database_.query("SELECT coalesce(min(created), 0) FROM jobs WHERE state = 0"));
}

void JobQueue::require_writable() const {
  const std::lock_guard lock(mutex_);
  const WriteTransaction nothing(database_);  // which is kept in memory, and so says nothing of the disk
  std::error_code unknown;
  const std::filesystem::space_info disk = std::filesystem::space(database_.path(), unknown);
  if (!unknown && disk.available < limits_.room)
    throw BrokenEnvironment("only " + std::to_string(disk.available) + " bytes are left for " +
                            database_.path().string() + "; free some space");
}

std::optional<JobRecord> JobQueue::find_next(const std::string& device, std::int64_t now, const Fits& fits) const {
  // Beside an equal one that is ending it would search the same workload twice at once.
  Query ids = database_.query(
      "SELECT id FROM jobs"
      " WHERE state = 0 AND (quiet = 0 OR not_before <= ?) AND (device = '' OR device = ?) AND digest NOT IN"
      " (SELECT digest FROM jobs WHERE state = 1) ORDER BY priority DESC, weight DESC, id LIMIT ?",
      now, device, fits ? std::int64_t{-1} : std::int64_t{1});
  while (ids.step()) {
    JobRecord job = require(ids.integer(0));
    if (!fits || fits(job)) return job;
  }
  return std::nullopt;
}

std::optional<JobRecord> JobQueue::start_next(const std::string& device, const Fits& fits) {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = unix_now();
  const std::optional<JobRecord> next = find_next(device, now, fits);
  if (!next) return std::nullopt;
  WriteTransaction all(database_);
  database_.run("UPDATE jobs SET state = 1, started = ?, starts = starts + 1, not_before = 0 WHERE id = ?", now,
                next->id);
  JobRecord job = require(next->id);
  all.commit();
  return job;
}

std::optional<JobRecord> JobQueue::finish(std::int64_t id, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  database_.run(
      "UPDATE jobs SET state = ?, error = ?, exit_code = ?, result = ?, ended = ?, ending = 0"
      " WHERE id = ? AND state = 1",
      number_of(outcome.state), outcome.error, outcome.exit_code, outcome.result, unix_now(), id);
  if (database_.changes() == 0) return std::nullopt;
  const JobRecord job = require(id);
  forget_old();
  all.commit();
  return job;
}

void JobQueue::put_back(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  database_.run(
      "UPDATE jobs SET state = ending, starts = starts - 1, ended = CASE WHEN ending > 0 THEN ? ELSE 0 END"
      " WHERE id = ? AND state = 1",
      unix_now(), id);
}

std::optional<JobRecord> JobQueue::put_off(std::int64_t id, std::int64_t not_before) {
  const std::lock_guard lock(mutex_);
  database_.run(
      "UPDATE jobs SET state = ending, starts = starts - 1, not_before = CASE WHEN quiet THEN ? ELSE 0 END,"
      " ended = CASE WHEN ending > 0 THEN ? ELSE 0 END WHERE id = ? AND state = 1",
      not_before, unix_now(), id);
  return first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id));
}

// Whether it was queued, and has ended now.
bool JobQueue::end_one(std::int64_t id, const JobOutcome& outcome) {
  database_.run("UPDATE jobs SET state = ?, error = ?, exit_code = ?, ended = ? WHERE id = ? AND state = 0",
                number_of(outcome.state), outcome.error, outcome.exit_code, unix_now(), id);
  const bool ended = database_.changes() > 0;
  database_.run("UPDATE jobs SET ending = ?, error = ?, exit_code = ? WHERE id = ? AND state = 1 AND ending = 0",
                number_of(outcome.state), outcome.error, outcome.exit_code, id);
  return ended;
}

JobQueue::Ending JobQueue::end(std::int64_t id, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  Ending ending{.job = {}, .ended = end_one(id, outcome)};
  ending.job = first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id));
  all.commit();
  return ending;
}

std::vector<JobQueue::Ending> JobQueue::end_overdue(std::int64_t now, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> late;
  {
    Query rows =
        database_.query("SELECT id FROM jobs WHERE state < 2 AND ending = 0 AND deadline > 0 AND deadline <= ?", now);
    while (rows.step()) late.push_back(rows.integer(0));
  }
  std::vector<Ending> all_ending;
  if (late.empty()) return all_ending;
  WriteTransaction all(database_);
  for (const std::int64_t id : late) {
    const bool ended = end_one(id, outcome);
    all_ending.push_back({require(id), ended});
  }
  all.commit();
  return all_ending;
}

JobQueue::Ending JobQueue::withdraw(std::int64_t id, const std::string& ticket, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  Ending ending{.job = first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id))};
  if (!ending.job || !is_open(ending.job->state)) return ending;
  database_.run("DELETE FROM requests WHERE job = ? AND ticket = ? AND ticket <> ''", id, ticket);
  ending.withdrawn = database_.changes() > 0;
  if (!ending.withdrawn) return ending;
  sum_up_requests(id);
  if (require(id).requests == 0) ending.ended = end_one(id, outcome);
  ending.job = require(id);
  all.commit();
  return ending;
}

bool JobQueue::has_put_off_due(std::int64_t now) const {
  const std::lock_guard lock(mutex_);
  return count_rows(database_.query(
             "SELECT count(*) FROM jobs WHERE state = 0 AND quiet = 1 AND not_before > 0 AND not_before <= ?", now)) >
         0;
}

void JobQueue::forget_old() {
  database_.run(
      "DELETE FROM jobs WHERE state > 1 AND (ended, id) <= (SELECT ended, id FROM jobs WHERE state > 1"
      " ORDER BY ended DESC, id DESC LIMIT 1 OFFSET ?)",
      static_cast<std::int64_t>(limits_.ended));
}

}  // namespace moetune
