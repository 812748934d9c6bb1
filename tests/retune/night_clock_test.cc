// Whole nights under a made-up clock, on a scripted GPU: what is old tonight is examined once. And what becomes of a
// winner that a sibling finds to be slower.
#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

#include "cache/history.h"
#include "retune/night.h"
#include "retune/session_subject.h"
#include "tests/paths.h"
#include "tuner/compile/compiler.h"

using namespace moetune;

namespace {

constexpr std::int64_t kOneDay = 86400;

class Nights {
 public:
  Nights() {
    std::string pattern = (std::filesystem::temp_directory_path() / "moetune-nights-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    setenv("MOETUNE_FAKE_CUDA", "memory=4194304", 1);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);  // the GPU's lock lies there
    request_.list.entries = {{.kernel = "decode_kernel", .shapes = {{"elements=1024"}}}};
    request_.search.settings.budget = 2;
    request_.search.threads = 1;
    request_.search.target.cache.path = (folder_ / "nights.db").string();
    request_.plan.budget = 2;
    request_.plan.max_age_s = 30.0 * kOneDay;
  }
  ~Nights() {
    unsetenv("MOETUNE_LIBCUDA");
    unsetenv("MOETUNE_FAKE_CUDA");
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  Nights(const Nights&) = delete;

  NightResult at(std::int64_t time, bool dry_run = false) {
    request_.now = [time] { return time; };
    request_.dry_run = dry_run;
    times_.clear();
    return run_night(request_, {},
                     [&](const Document& event) { times_.push_back(event["at"].get<std::int64_t>()); }, {});
  }
  const std::vector<std::int64_t>& times() const { return times_; }
  SearchRequest search() const {
    SearchRequest search = request_.search;
    search.target.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""};
    return search;
  }

 private:
  std::filesystem::path folder_;
  NightRequest request_;
  std::vector<std::int64_t> times_;
};

}  // namespace

TEST_CASE("by a made-up clock a winner gets old, is examined, and is young again") {
  Nights nights;
  const auto today = static_cast<std::int64_t>(std::time(nullptr));
  const NightResult first = nights.at(today);
  REQUIRE(first.reworked.size() == 1);
  INFO(first.reworked[0].result.reason);
  REQUIRE(first.reworked[0].result.verdict == ReworkVerdict::tuned);
  for (const std::int64_t time : nights.times()) CHECK(time == today);
  CHECK(nights.at(today + 29 * kOneDay).plan.items.empty());
  const NightResult planned = nights.at(today + 31 * kOneDay, true);
  REQUIRE(planned.plan.items.size() == 1);
  CHECK(planned.plan.items[0].causes == std::vector{StaleCause::age});
  const NightResult examined = nights.at(today + 31 * kOneDay);
  REQUIRE(examined.reworked.size() == 1);
  INFO(examined.reworked[0].result.reason);
  CHECK(examined.failures() == 0);
  CHECK(nights.at(today + 32 * kOneDay).plan.items.empty());
  CHECK(nights.at(today + 60 * kOneDay).plan.items.empty());
  CHECK(nights.at(today + 62 * kOneDay, true).plan.items.size() == 1);
}

namespace {

// A configuration as a check on a sibling leaves it.
SiblingCheck check_with(SessionSubject& subject, ConfigId id) {
  SiblingCheck check{.held = true, .lost = true};
  check.other = *subject.prepare(id);
  check.other_trial =
      Trial{.id = id, .config = check.other->config, .result = subject.device().run(*check.other, {})};
  REQUIRE(check.other_trial->result.outcome == Outcome::ok);
  return check;
}

std::string store_winner_of(SessionSubject& subject, ConfigId id) {
  const SiblingCheck built = check_with(subject, id);
  TuneResult found;
  found.winner = *built.other;
  found.best = built.other_trial;
  subject.store(found);
  return found.winner.config.text();
}

}  // namespace

TEST_CASE("a winner that is withdrawn leaves the one before it, once") {
  Nights nights;
  std::mutex turn;
  SessionSubject subject(nights.search(), false, {}, {}, turn);
  subject.open_device();
  const SiblingCheck nothing;
  CHECK_FALSE(subject.incumbent());
  const std::string first = store_winner_of(subject, *subject.default_id());
  CHECK(subject.has_winner(first));
  CHECK_FALSE(subject.withdraw(first, "", nothing));  // nothing was before it
  const std::string second = store_winner_of(subject, *subject.default_id() == 0 ? 1 : 0);
  REQUIRE(second != first);
  CHECK(subject.has_winner(second));
  CHECK_FALSE(subject.withdraw(first, second, nothing));  // it is not the winner
  CHECK(subject.withdraw(second, first, nothing));
  CHECK(subject.incumbent()->config.text() == first);
  CHECK(subject.earlier() == std::vector{first});         // what was withdrawn is not to come back
  CHECK_FALSE(subject.withdraw(second, first, nothing));  // two siblings may find the same
  CHECK(subject.incumbent()->config.text() == first);
}

TEST_CASE("after templates changed, a withdrawn winner leaves that of the earlier templates") {
  Nights nights;
  std::mutex turn;
  const std::string path = nights.search().target.cache.path;
  std::string first;
  ConfigId other = 0;
  {
    SessionSubject before(nights.search(), false, {}, {}, turn);
    before.open_device();
    other = *before.default_id() == 0 ? 1 : 0;
    first = store_winner_of(before, *before.default_id());
  }
  WorkloadKey key, today_key;
  {
    Cache cache = Cache::open(path, Cache::Mode::read_write);
    const Workload workload = cache.workloads().front();
    const WinnerRecord winner = cache.winner(workload.id).value();
    cache.forget(workload.id);
    today_key = key = workload.key;
    key.source_digest = "earlier";
    cache.put_winner(cache.workload(key, workload.family), winner);
  }
  SessionSubject subject(nights.search(), false, {}, {}, turn);
  subject.open_device();
  REQUIRE(subject.incumbent()->config.text() == first);
  const std::string second = store_winner_of(subject, other);
  REQUIRE(subject.has_winner(second));
  CHECK(subject.withdraw(second, first, {}));
  CHECK(subject.has_winner(first));
  CHECK_FALSE(subject.has_winner(second));
  {
    const Cache cache = Cache::open(path, Cache::Mode::read_only);
    CHECK(cache.check().empty());
    const auto today = cache.find_workload(today_key);
    REQUIRE(today);
    CHECK_FALSE(cache.winner(*today));
    CHECK(cache.history(*today).front().reason == "withdrawn");
  }
  // Without the earlier winner: what the sibling has built and timed itself.
  store_winner_of(subject, other);
  {
    Cache cache = Cache::open(path, Cache::Mode::read_write);
    cache.forget(*cache.find_workload(key));
  }
  REQUIRE(subject.has_winner(second));
  CHECK_FALSE(subject.withdraw(second, first, {}));
  CHECK(subject.withdraw(second, first, check_with(subject, *subject.default_id())));
  CHECK(subject.has_winner(first));
}

TEST_CASE("a workload is retuned under the timing of the winner that a server would take") {
  Nights nights;
  const auto today = static_cast<std::int64_t>(std::time(nullptr));
  REQUIRE(nights.at(today, true).plan.items.size() == 1);
  CHECK(nights.at(today, true).plan.items[0].key.timing == Timing::overlapped);  // what nobody has tuned
  for (const Timing timing : {Timing::alone, Timing::chained}) {
    SearchRequest one = nights.search();
    one.settings.policy.timing = timing;
    REQUIRE(search(one, {}).tune.best);
    const NightResult planned = nights.at(today + 31 * kOneDay, true);
    REQUIRE(planned.plan.items.size() == 1);
    CHECK(planned.plan.items[0].key.timing == timing);
  }
  const NightResult night = nights.at(today + 31 * kOneDay);
  CHECK(night.failures() == 0);
  // No probe, and no search, was of another timing.
  const Cache cache = Cache::open(nights.search().target.cache.path, Cache::Mode::read_only);
  for (const Workload& workload : cache.workloads()) CHECK(workload.key.timing != Timing::overlapped);
}
