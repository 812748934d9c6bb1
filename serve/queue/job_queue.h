// The jobs of a service, open and ended, in a SQLite file of their own: nothing that was accepted is lost by a kill or
// a reboot, and what was running then is queued again. Each POST is a request of one job; equal ones share an open job.
//
// Thread-safe. Errors: BrokenEnvironment for the file, and for one that another version has made; QueueFull.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "cache/file/database.h"

namespace moetune {

enum class JobState { queued, running, done, failed, cancelled };

std::string_view job_state_name(JobState state);
std::optional<JobState> job_state_from_name(std::string_view name);
inline bool is_open(JobState state) { return state == JobState::queued || state == JobState::running; }

struct JobRecord {
  std::int64_t id = 0;
  std::string kind;     // "search"
  std::string request;  // JSON, canonical: equal requests have equal texts
  std::string shown;    // JSON, what lists show of the request
  std::string device;   // that it must run on; "" for any
  JobState state = JobState::queued;
  std::int64_t priority = 0;    // higher first
  double weight = 0;            // among equal priorities: how often it was missed
  bool quiet = false;           // nobody waits for it: it is put off rather than measured beside others' work
  bool ending = false;          // it runs, and was ended: no request joins it
  std::int64_t not_before = 0;  // seconds since 1970: it was put off until then; 0: it was not
  std::int64_t requests = 1;    // that are not withdrawn; of a missed shape all posts are one
  std::int64_t deadline = 0;    // seconds since 1970; 0: none
  std::int64_t created = 0, started = 0, ended = 0;  // seconds since 1970; 0: not yet
  std::int64_t starts = 0;                           // but those that ended in order: kills, and the run that goes on
  std::string result;                                // JSON; "" if there is none
  std::string error;                                 // one sentence; "" if there is none
  std::optional<int> exit_code;                      // as the command of that name would end
};

struct JobOutcome {
  JobState state = JobState::done;
  std::string result, error;
  int exit_code = 0;
};

class QueueFull : public BadInput {
 public:
  using BadInput::BadInput;
};

class JobQueue {
 public:
  struct Limits {
    std::size_t open = 10'000;                  // jobs queued and running
    std::uintmax_t open_bytes = 256 << 20;      // of their requests
    std::size_t missed = 2'000;                 // of these: that nobody waits for
    std::size_t ended = 10'000;                 // that are remembered
    double weight = 1e9;                        // of one job, however often it is missed
    std::uintmax_t room = 1 << 20;              // bytes that must be free on its disk
    std::chrono::milliseconds patience{5'000};  // with a file that another process has locked
  };

  explicit JobQueue(const std::filesystem::path& file) : JobQueue(file, Limits{}) {}
  JobQueue(const std::filesystem::path& file, Limits limits);

  // Queues what was running when an earlier service ended, and ends what it was ending. For who is alone on the queue.
  void take_over();

  struct Submitted {
    JobRecord job;
    bool joined = false;  // the request is one more of an open job that equals it
    std::string ticket;   // by which this request, and no other, is taken back; "" if nobody waits (`quiet`)
    std::string full;     // why there is no room for it: it was not submitted
  };
  // Takes kind, request, shown, device, priority, weight, quiet and deadline of each job. A job has the highest
  // priority and the last deadline of its requests. One that anybody waits for is not quiet, and not put off. All in
  // one transaction.
  std::vector<Submitted> submit(const std::vector<JobRecord>& jobs);
  Submitted submit(const JobRecord& job);  // throws QueueFull

  std::optional<JobRecord> find(std::int64_t id) const;
  struct Filter {
    std::optional<JobState> state;
    std::string kind;        // "" for any
    std::int64_t after = 0;  // ids above this one
    std::int64_t limit = 100;
  };
  // These leave out request and result, which may be megabytes of each job.
  std::vector<JobRecord> list(const Filter& filter) const;  // by id
  std::vector<JobRecord> latest(std::size_t count) const;   // ended last first
  std::map<JobState, std::int64_t> counts() const;
  std::int64_t oldest_queued() const;  // its creation; 0 if none waits
  void require_writable() const;       // throws if no job could be taken now: its file is locked, its disk full

  // Starts the next job for a device, of those that `fits` takes: the highest priority, then weight, then the oldest.
  // `fits` may be empty, and calls no queue.
  using Fits = std::function<bool(const JobRecord& job)>;
  std::optional<JobRecord> start_next(const std::string& device, const Fits& fits = {});
  // Ends a running job. nullopt if it does not run.
  std::optional<JobRecord> finish(std::int64_t id, const JobOutcome& outcome);
  // A running job goes back to the queue: the service stops. One that was ending ends.
  void put_back(std::int64_t id);
  // The same until `not_before`, because its device is not quiet; at once if it is no quiet job any more.
  std::optional<JobRecord> put_off(std::int64_t id, std::int64_t not_before);
  struct Ending {
    std::optional<JobRecord> job;  // as it is then; nullopt if there is none of that id
    bool ended = false;            // by this call: it was queued
    bool withdrawn = false;        // by this call: a request
  };
  // Ends a queued job as `outcome` says, and marks a running one as ending so: its runner is to be stopped, and an
  // equal request is a job of its own from now on.
  Ending end(std::int64_t id, const JobOutcome& outcome);
  // The same of all that are past their deadline.
  std::vector<Ending> end_overdue(std::int64_t now, const JobOutcome& outcome);
  // Takes the request of a ticket back, once, however often it is called; with the last one the job ends as `outcome`.
  // A job that is left with other requests has their priority and deadline; one that is left with those of a missed
  // shape is quiet again, and put off until then.
  Ending withdraw(std::int64_t id, const std::string& ticket, const JobOutcome& outcome);
  bool has_put_off_due(std::int64_t now) const;  // that can start again

 private:
  JobRecord require(std::int64_t id) const;  // these want mutex_ held
  std::optional<JobRecord> find_next(const std::string& device, std::int64_t now, const Fits& fits) const;
  struct Open {
    std::uintmax_t jobs = 0, bytes = 0, missed = 0;
  };
  Open count_open() const;
  std::string why_full(const Open& open, const JobRecord& job) const;
  std::int64_t find_equal(const std::string& digest) const;
  std::int64_t insert(const JobRecord& job, const std::string& digest);
  JobRecord add_request(std::int64_t id, const std::string& ticket, const JobRecord& job);
  void sum_up_requests(std::int64_t id);
  bool end_one(std::int64_t id, const JobOutcome& outcome);
  void forget_old();

  const Limits limits_;
  mutable std::mutex mutex_;
  Database database_;
};

}  // namespace moetune
