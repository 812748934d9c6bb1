// The queue by itself: its order, its bounds and its deadlines, on both sides of each.
#include "serve/queue/job_queue.h"

#include <doctest/doctest.h>

#include <ctime>

#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace moetune::job_queue_test {
namespace {

const JobOutcome kTaken{.state = JobState::cancelled, .result = {}, .error = "{}", .exit_code = 130};

JobRecord queued(const std::string& request, const std::string& device = "", std::int64_t priority = 0,
                 double weight = 0) {
  return {.kind = "search", .request = request, .shown = {}, .device = device, .priority = priority, .weight = weight};
}

JobRecord missed(const std::string& request, double weight = 1) {
  JobRecord job = queued(request, "", -10, weight);
  job.quiet = true;
  return job;
}

const JobRecord kMissed{.kind = "search",
                        .request = R"({"kernel":"decode_kernel"})",
                        .shown = {},
                        .device = {},
                        .priority = -10,
                        .weight = 3,
                        .quiet = true,
                        .deadline = 5'000'000'000};

JobRecord asked_for(std::int64_t priority, std::int64_t deadline) {
  JobRecord job = kMissed;
  job.priority = priority;
  job.weight = 0;
  job.quiet = false;
  job.deadline = deadline;
  return job;
}

struct OwnQueue {
  explicit OwnQueue(JobQueue::Limits limits = {}) : queue(folder.file("jobs"), limits) {}
  // "" if it was taken.
  std::string refusal(const JobRecord& job) { return queue.submit(std::vector{job}).front().full; }

  const TemporaryFolder folder;
  JobQueue queue;
};

}  // namespace

TEST_CASE("jobs start by priority, then weight, then age, each on a device that it may run on") {
  OwnQueue own;
  JobQueue& queue = own.queue;
  const auto id = [&](const JobRecord& job) { return queue.submit(job).job.id; };
  const std::int64_t rare = id(missed("rare", 2)), often = id(missed("often", 3)), first = id(queued("first")),
                     second = id(queued("second")), bound = id(queued("bound", "cuda:1", 9)),
                     same = id(queued("first", "cuda:1")), urgent = id(queued("urgent", "", 5));
  CHECK(same != first);  // on another device it is another job
  for (const std::int64_t next : {urgent, first, second, often, rare}) CHECK(queue.start_next("cuda:0")->id == next);
  CHECK_FALSE(queue.start_next("cuda:0"));
  CHECK(queue.start_next("cuda:1")->id == bound);
  CHECK(queue.start_next("cuda:1")->id == same);
}

TEST_CASE("as many jobs are open as may be, of missed shapes and in bytes, and not one more") {
  OwnQueue few({.open = 3, .open_bytes = 10, .missed = 2, .weight = 5});
  CHECK(few.refusal(missed("aaaa", 4)).empty());
  CHECK(few.queue.submit(missed("aaaa", 4)).job.weight == 5);
  CHECK(few.refusal(missed("b")).empty());
  CHECK(few.refusal(missed("c")).find("2 missed shapes") != std::string::npos);
  CHECK(few.refusal(queued("dddddd")).find("10 bytes in all, and this one has 6") != std::string::npos);
  CHECK(few.refusal(queued("ddddd")).empty());
  CHECK(few.refusal(queued("e")).find("3 jobs are open") != std::string::npos);
  CHECK(few.refusal(queued("ddddd")).empty());  // it joins
}

TEST_CASE("a deadline passes in its second, for queued and running jobs, and for none that has none") {
  OwnQueue own;
  JobQueue& queue = own.queue;
  const std::int64_t endless = queue.submit(queued("endless")).job.id;
  std::int64_t late[2];
  for (std::int64_t& id : late) {
    JobRecord job = queued(std::to_string(&id - late), "", 1);
    job.deadline = 5'000'000'000;
    id = queue.submit(job).job.id;
  }
  REQUIRE(queue.start_next("any")->id == late[0]);
  CHECK(queue.end_overdue(4'999'999'999, kTaken).empty());
  const std::vector<JobQueue::Ending> endings = queue.end_overdue(5'000'000'000, kTaken);
  REQUIRE(endings.size() == 2);
  CHECK_FALSE(endings[0].ended);
  CHECK(endings[0].job->ending);
  CHECK(endings[1].ended);
  CHECK(endings[1].job->state == JobState::cancelled);
  CHECK(queue.find(endless)->state == JobState::queued);
  CHECK(queue.end_overdue(6'000'000'000, kTaken).empty());
}

TEST_CASE("of two who share a running job each takes back its own request, and the last ends it") {
  OwnQueue own;
  JobQueue& queue = own.queue;
  const JobQueue::Submitted first = queue.submit(queued("x", "", 7)), second = queue.submit(queued("x"));
  const std::int64_t id = first.job.id;
  REQUIRE(queue.start_next("any")->id == id);
  for (int times = 0; times < 2; ++times) {
    const JobQueue::Ending gone = queue.withdraw(id, first.ticket, kTaken);
    CHECK(gone.withdrawn == (times == 0));
    CHECK_FALSE(gone.job->ending);
    CHECK(gone.job->requests == 1);
    CHECK(gone.job->priority == 0);
  }
  CHECK(queue.withdraw(id, second.ticket, kTaken).job->ending);
  CHECK(queue.finish(id, kTaken)->state == JobState::cancelled);
  CHECK_FALSE(queue.withdraw(id, second.ticket, kTaken).withdrawn);
}

TEST_CASE("a miss is as quiet and as late as before once the client that joined it withdraws") {
  OwnQueue own;
  JobQueue& queue = own.queue;
  const std::int64_t id = queue.submit(kMissed).job.id;
  REQUIRE(queue.start_next("any"));
  const std::int64_t later = static_cast<std::int64_t>(std::time(nullptr)) + 3600;
  REQUIRE(queue.put_off(id, later)->not_before == later);
  CHECK_FALSE(queue.start_next("any"));
  CHECK_FALSE(queue.has_put_off_due(later - 1));
  CHECK(queue.has_put_off_due(later));
  CHECK(queue.submit(kMissed).job.not_before == later);
  const JobQueue::Submitted first = queue.submit(asked_for(5, 6'000'000'000)), second = queue.submit(asked_for(2, 0));
  CHECK(second.job.id == id);
  CHECK(second.job.priority == 5);
  CHECK(second.job.deadline == 0);
  CHECK(second.job.not_before == 0);
  CHECK_FALSE(second.job.quiet);
  CHECK(queue.submit(kMissed).job.requests == 3);  // all posts of a miss are one

  JobRecord left = queue.withdraw(id, first.ticket, kTaken).job.value();
  CHECK(left.priority == 2);
  CHECK_FALSE(left.quiet);
  CHECK_FALSE(queue.withdraw(id, "", kTaken).withdrawn);  // names nobody
  const JobQueue::Ending ending = queue.withdraw(id, second.ticket, kTaken);
  CHECK(ending.withdrawn);
  CHECK_FALSE(ending.ended);
  left = ending.job.value();
  CHECK(left.state == JobState::queued);
  CHECK(left.requests == 1);
  CHECK(left.weight == 9);
  CHECK(left.quiet);
  CHECK(left.priority == -10);
  CHECK(left.deadline == 5'000'000'000);
  CHECK(left.not_before == later);
  CHECK_FALSE(queue.start_next("any"));
  for (const std::string& ticket : {first.ticket, second.ticket, std::string()})
    CHECK_FALSE(queue.withdraw(id, ticket, kTaken).withdrawn);  // sent again, it ends no miss

  queue.submit(asked_for(0, 0));
  CHECK(queue.start_next("any")->id == id);  // somebody waits again
  CHECK(queue.put_off(id, later)->not_before == 0);
  CHECK(queue.start_next("any")->starts == 1);  // put off is no crash
}

TEST_CASE("a queue of another version, and what is none, are refused in one sentence") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.file("jobs");
  const auto refused = [&](const std::string& sql) -> std::string {
    {
      const Database database(file, Database::Access::create, std::chrono::milliseconds(1000));
      database.execute(sql);
    }
    return refusal_of<BrokenEnvironment>([&] { const JobQueue queue(file); });
  };
  CHECK(refused("PRAGMA user_version = 0") == "");  // new
  for (const char* version : {"4", "6"})
    CHECK(refused("PRAGMA user_version = " + std::string(version)) ==
          file.string() + " is the queue of another version of moetune (" + version +
              ", and this one's is 5): move it away, and submit again what had not ended; trials and winners are in "
              "the cache");
  CHECK(refused("PRAGMA application_id = 7") ==
        file.string() + " is no queue of moetune's service; move it away, or name another");
}

TEST_CASE("the jobs that ended last are remembered, whatever their numbers are") {
  OwnQueue own({.ended = 1});
  JobQueue& queue = own.queue;
  const std::int64_t late = queue.submit(queued("late", "", -1)).job.id, soon = queue.submit(queued("soon")).job.id;
  for (const std::int64_t id : {soon, late}) {
    REQUIRE(queue.start_next("any")->id == id);
    REQUIRE(queue.finish(id, kTaken));
    CHECK(queue.find(id));
    Database(own.folder.file("jobs"), Database::Access::read_write, std::chrono::seconds(5))
        .execute("UPDATE jobs SET ended = ended - 10 WHERE state > 1");
  }
  CHECK_FALSE(queue.find(soon));
}

TEST_CASE("of a queue whose service was killed what ran is queued, and counted; what was ending has ended") {
  const TemporaryFolder folder;
  std::int64_t killed = 0, second = 0;
  {
    JobQueue queue(folder.file("jobs"));
    const std::int64_t first = queue.submit(queued("x")).job.id;
    REQUIRE(queue.start_next("any"));
    const JobQueue::Ending ending = queue.end(first, kTaken);
    CHECK_FALSE(ending.ended);
    CHECK(ending.job->ending);
    second = queue.submit(queued("x")).job.id;
    CHECK(second != first);
    CHECK_FALSE(queue.start_next("other"));  // both would search the same
    killed = queue.submit(queued("killed", "", -1)).job.id;
    REQUIRE(queue.start_next("other")->id == killed);
  }
  JobQueue queue(folder.file("jobs"));
  queue.take_over();
  CHECK(queue.find(1)->state == JobState::cancelled);
  CHECK(queue.find(1)->ended > 0);
  CHECK(queue.start_next("any")->id == second);
  CHECK(queue.start_next("any")->starts == 2);
  queue.put_back(killed);  // the service stops in order
  CHECK(queue.start_next("any")->starts == 2);
  queue.end(second, kTaken);
  queue.put_back(second);  // it ends all the same
  CHECK(queue.find(second)->state == JobState::cancelled);
}

}  // namespace moetune::job_queue_test
