#include "serve/job_queue.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/digest.h"
#include "base/regular_file.h"
#include "serve/job_tables.h"
#include "serve/secrets.h"

namespace moetune {
namespace {

constexpr std::array<std::string_view, 5> kStateNames = {"queued", "running", "done", "failed", "cancelled"};

#define MOETUNE_JOB_FIELDS                                                                                        \
  "SELECT id, kind, shown, device, state, priority, weight, requests, deadline, created, started, ended, starts," \
  " quiet, error, exit_code, not_before, ending, misses"
#define MOETUNE_LISTED_JOBS MOETUNE_JOB_FIELDS ", '', '' FROM jobs "
#define MOETUNE_WHOLE_JOBS MOETUNE_JOB_FIELDS ", request, result FROM jobs CROSS JOIN job_texts ON job = id "

constexpr std::size_t kTicketDigits = 32;

std::int64_t unix_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

int number_of(JobState state) { return static_cast<int>(state); }

std::string digest_of(const JobRecord& job) {
  return DigestBuilder().add(job.kind).add(job.device).add(job.request).finish();
}

JobRecord record_of(const Query& row) {
  JobRecord job{
      .id = row.integer(0),
      .kind = row.text(1),
      .request = row.text(19),
      .shown = row.text(2),
      .device = row.text(3),
      .state = static_cast<JobState>(std::min<std::int64_t>(4, std::max<std::int64_t>(0, row.integer(4)))),
      .priority = row.integer(5),
      .weight = row.real(6),
      .quiet = row.integer(13) != 0,
      .ending = row.integer(17) != 0,
      .not_before = row.integer(13) != 0 ? row.integer(16) : 0,
      .requests = row.integer(7),
      .misses = row.integer(18),
      .deadline = row.integer(8),
      .created = row.integer(9),
      .started = row.integer(10),
      .ended = row.integer(11),
      .starts = row.integer(12),
      .result = row.text(20),
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

}  // namespace

std::string_view job_state_name(JobState state) { return kStateNames[static_cast<std::size_t>(state)]; }

std::optional<JobState> job_state_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) return static_cast<JobState>(i);
  }
  return std::nullopt;
}

JobQueue::JobQueue(const std::filesystem::path& file, Limits limits)
    : limits_(limits),
      database_((require_regular_file(file), file), Database::Access::create, limits.patience) {
  prepare_job_tables(database_);  // first: a file that is no queue stays as it is
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

// The open job that now stands for `job` as well.
std::optional<JobRecord> JobQueue::joined_into(const JobRecord& job, const std::string& digest) {
  const std::int64_t equal = count_rows(
      database_.query("SELECT id FROM jobs WHERE digest = ? AND state < 2 AND ending = 0", digest));
  if (equal == 0) return std::nullopt;
  const std::int64_t quiet = job.quiet ? 1 : 0;
  database_.run(
      "UPDATE jobs SET priority = max(priority, ?), weight = min(weight + ?, ?), requests = requests + 1,"
      " deadline = CASE WHEN deadline = 0 OR ? = 0 THEN 0 ELSE max(deadline, ?) END,"
      " quiet = min(quiet, ?), misses = misses + ? WHERE id = ?",
      job.priority, job.weight, limits_.weight, job.deadline, job.deadline, quiet, quiet, equal);
  return require(equal);
}

std::int64_t JobQueue::insert(const JobRecord& job, const std::string& digest) {
  const std::int64_t quiet = job.quiet ? 1 : 0;
  database_.run(
      "INSERT INTO jobs (kind, shown, bytes, digest, device, state, priority, weight, requests, deadline, created,"
      " started, ended, starts, error, exit_code, quiet, misses)"
      " VALUES (?, ?, ?, ?, ?, 0, ?, ?, 1, ?, ?, 0, 0, 0, '', -1, ?, ?)",
      job.kind, job.shown, static_cast<std::int64_t>(job.request.size()), digest, job.device, job.priority,
      std::min(job.weight, limits_.weight), job.deadline, unix_now(), quiet, quiet);
  const std::int64_t id = count_rows(database_.query("SELECT last_insert_rowid()"));
  database_.run("INSERT INTO job_texts (job, request, result) VALUES (?, ?, '')", id, job.request);
  return id;
}

// `ticket`: "" for a miss.
void JobQueue::note_wishes(std::int64_t id, const std::string& ticket, const JobRecord& job) {
  database_.run(
      "INSERT INTO tickets (job, ticket, priority, deadline) VALUES (?, ?, ?, ?)"
      " ON CONFLICT (job, ticket) DO UPDATE SET priority = max(priority, excluded.priority),"
      " deadline = CASE WHEN min(deadline, excluded.deadline) = 0 THEN 0 ELSE max(deadline, excluded.deadline) END",
      id, ticket, job.priority, job.deadline);
}

JobQueue::Open JobQueue::count_open() const {
  Query row = database_.query("SELECT count(*), coalesce(sum(bytes), 0) FROM jobs WHERE state < 2");
  row.step();
  return {.jobs = row.integer(0), .bytes = row.integer(1)};
}

// "" if the job has room beside those that are open.
std::string JobQueue::why_full(const Open& open, const JobRecord& job) const {
  if (open.jobs >= static_cast<std::int64_t>(limits_.open))
    return "the queue is full: " + std::to_string(limits_.open) + " jobs are open";
  if (static_cast<std::uintmax_t>(open.bytes) + job.request.size() > limits_.open_bytes)
    return "the queue is full: the requests of its open jobs may have " + std::to_string(limits_.open_bytes) +
           " bytes in all, and this one has " + std::to_string(job.request.size());
  return "";
}

JobQueue::Submitted JobQueue::submit(const JobRecord& job) {
  const std::string name = digest_of(job);
  Submitted submitted{.job = {}, .ticket = random_secret().substr(0, kTicketDigits)};
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  if (const auto equal = joined_into(job, name)) {
    submitted.job = *equal;
    submitted.joined = true;
  } else {
    if (const std::string full = why_full(count_open(), job); !full.empty()) throw QueueFull(full);
    submitted.job = require(insert(job, name));
  }
  note_wishes(submitted.job.id, submitted.ticket, job);
  all.commit();
  return submitted;
}

JobQueue::TakenMisses JobQueue::submit_missed(const std::vector<JobRecord>& jobs) {
  TakenMisses taken;
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  Open open = count_open();
  std::int64_t missed =
      count_rows(database_.query("SELECT count(*) FROM jobs WHERE state < 2 AND ending = 0 AND quiet = 1"));
  for (const JobRecord& job : jobs) {
    const std::string name = digest_of(job);
    if (auto equal = joined_into(job, name)) {
      note_wishes(equal->id, "", job);
      taken.jobs.push_back(std::move(*equal));
    } else if (missed >= static_cast<std::int64_t>(limits_.missed) || !why_full(open, job).empty()) {
      ++taken.full;
    } else {
      taken.jobs.push_back(require(insert(job, name)));
      note_wishes(taken.jobs.back().id, "", job);
      ++taken.queued;
      ++open.jobs;
      open.bytes += static_cast<std::int64_t>(job.request.size());
      ++missed;
    }
  }
  all.commit();
  return taken;
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
  return records_of(
      database_.query(MOETUNE_LISTED_JOBS
                      "WHERE id > ? AND (? < 0 OR state = ?) AND (? = '' OR kind = ?) ORDER BY id LIMIT ?",
                      filter.after, state, state, filter.kind, filter.kind, filter.limit));
}

std::vector<JobRecord> JobQueue::latest(std::size_t count) const {
  const std::lock_guard lock(mutex_);
  return records_of(database_.query(MOETUNE_LISTED_JOBS
                                    "WHERE state > 1 ORDER BY ended DESC, id DESC LIMIT ?",
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

std::optional<JobRecord> JobQueue::find_next(const std::string& device, std::int64_t now,
                                             const Fits& fits) const {
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
  database_.run("UPDATE jobs SET state = 1, started = ?, starts = starts + 1, not_before = 0 WHERE id = ?",
                now, next->id);
  JobRecord job = require(next->id);
  all.commit();
  return job;
}

std::optional<JobRecord> JobQueue::finish(std::int64_t id, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  database_.run(
      "UPDATE jobs SET state = ?, error = ?, exit_code = ?, ended = ?, ending = 0 WHERE id = ? AND state = 1",
      number_of(outcome.state), outcome.error, outcome.exit_code, unix_now(), id);
  if (database_.changes() == 0) return std::nullopt;
  database_.run("UPDATE job_texts SET result = ? WHERE job = ?", outcome.result, id);
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
  database_.run(
      "UPDATE jobs SET ending = ?, error = ?, exit_code = ? WHERE id = ? AND state = 1 AND ending = 0",
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
    Query rows = database_.query(
        "SELECT id FROM jobs WHERE state < 2 AND ending = 0 AND deadline > 0 AND deadline <= ?", now);
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

// False if the ticket is not there (any more); "" names the only one that waits.
bool JobQueue::remove_ticket(const JobRecord& job, const std::string& ticket) {
  if (ticket.empty()) {
    if (job.requests - job.misses != 1) return false;
    database_.run("DELETE FROM tickets WHERE job = ? AND ticket <> ''", job.id);
    return true;  // a job of an earlier version may have none
  }
  database_.run("DELETE FROM tickets WHERE job = ? AND ticket = ?", job.id, ticket);
  return database_.changes() > 0;
}

JobQueue::Ending JobQueue::withdraw(std::int64_t id, const std::string& ticket, const JobOutcome& outcome) {
  const std::lock_guard lock(mutex_);
  WriteTransaction all(database_);
  Ending ending{.job = first_of(database_.query(MOETUNE_WHOLE_JOBS "WHERE id = ?", id))};
  if (!ending.job || !is_open(ending.job->state)) return ending;
  ending.withdrawn = remove_ticket(*ending.job, ticket);
  if (!ending.withdrawn) return ending;
  database_.run(
      "UPDATE jobs SET requests = max(0, requests - 1), quiet = max(quiet, requests - 1 <= misses AND misses > 0),"
      " priority = coalesce((SELECT max(t.priority) FROM tickets t WHERE t.job = jobs.id), priority),"
      " deadline = coalesce((SELECT CASE WHEN min(t.deadline) = 0 THEN 0 ELSE max(t.deadline) END"
      " FROM tickets t WHERE t.job = jobs.id), deadline) WHERE id = ?",
      id);
  if (ending.job->requests <= 1) ending.ended = end_one(id, outcome);
  ending.job = require(id);
  all.commit();
  return ending;
}

bool JobQueue::has_put_off_due(std::int64_t now) const {
  const std::lock_guard lock(mutex_);
  return count_rows(database_.query(
             "SELECT count(*) FROM jobs WHERE state = 0 AND quiet = 1 AND not_before > 0 AND not_before <= ?",
             now)) > 0;
}

void JobQueue::forget_old() {
  database_.run(
      "DELETE FROM jobs WHERE state > 1 AND (ended, id) <= (SELECT ended, id FROM jobs WHERE state > 1"
      " ORDER BY ended DESC, id DESC LIMIT 1 OFFSET ?)",
      static_cast<std::int64_t>(limits_.ended));
}

}  // namespace moetune
