// Whole nights under a made-up clock, on a scripted GPU: what is old tonight is examined once.
#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

#include "cache/cache.h"
#include "retune/night.h"
#include "retune/session_subject.h"
#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tuner/compile/compiler.h"

using namespace moetune;

namespace {

constexpr std::int64_t kOneDay = 86400;

class Nights {
 public:
  Nights() {
    setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    setenv("MOETUNE_FAKE_CUDA", "memory=4194304", 1);
    setenv("MOETUNE_NVRTC", paths::fake_nvrtc(), 1);
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);  // the GPU's lock lies there
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
  }
  Nights(const Nights&) = delete;

  NightResult at(std::int64_t time, bool dry_run = false) {
    request_.now = [time] { return time; };
    request_.dry_run = dry_run;
    times_.clear();
    return run_night(request_, {}, [&](const Document& event) { times_.push_back(event["at"].get<std::int64_t>()); });
  }
  const std::vector<std::int64_t>& times() const { return times_; }
  SearchRequest search() const {
    SearchRequest search = request_.search;
    search.target.workload = {.kernel = "decode_kernel", .problem = "elements=1024", .preset = ""};
    return search;
  }

 private:
  TemporaryFolder folder_;
  NightRequest request_;
  std::vector<std::int64_t> times_;
};

}  // namespace

TEST_CASE("by a made-up clock a winner gets old, is examined, and is young again") {
  Nights nights;
  const auto today = static_cast<std::int64_t>(std::time(nullptr));
  const NightResult first = nights.at(today);
  REQUIRE(first.reworked.size() == 1);
  INFO(first.reworked[0].dump());
  REQUIRE(first.reworked[0]["verdict"] == "tuned");
  for (const std::int64_t time : nights.times()) CHECK(time == today);
  CHECK(nights.at(today + 29 * kOneDay).plan.items.empty());
  const NightResult planned = nights.at(today + 31 * kOneDay, true);
  REQUIRE(planned.plan.items.size() == 1);
  CHECK(planned.plan.items[0].causes == std::vector{StaleCause::age});
  const NightResult examined = nights.at(today + 31 * kOneDay);
  REQUIRE(examined.reworked.size() == 1);
  INFO(examined.reworked[0].dump());
  CHECK(examined.failures() == 0);
  CHECK(nights.at(today + 32 * kOneDay).plan.items.empty());
  CHECK(nights.at(today + 60 * kOneDay).plan.items.empty());
  CHECK(nights.at(today + 62 * kOneDay, true).plan.items.size() == 1);
}

TEST_CASE("of the winners of before those are tried again that nobody rolled back, and that were measured alone") {
  Nights nights;
  REQUIRE(search(nights.search(), {}).tune.best);
  const auto earlier = [&] { return SessionSubject(nights.search(), false, [](Remedy) {}, {}).earlier(); };
  CHECK(earlier().empty());
  std::string first;
  {
    Cache cache = Cache::open(nights.search().target.cache.path, Cache::Mode::create);
    const Workload workload = cache.workloads.all().front();
    WinnerRecord winner = cache.winners.find(workload.id).value();
    first = winner.config;
    const auto put = [&](const std::string& config, bool contended) {
      winner.config = config;
      winner.contended = contended;
      cache.winners.put(workload.id, winner, kReplacedSearch);
    };
    put("of another space", false);
    put("beside others", true);
    put("unwanted", false);
    cache.winners.roll_back(workload.id, 1);
    CHECK(cache.winners.find(workload.id)->config == first);
  }
  CHECK(earlier() == std::vector<std::string>{"of another space", first});
}

TEST_CASE("a search has found the incumbent again if sources and compiler are those that it was made with") {
  Nights nights;
  REQUIRE(search(nights.search(), {}).tune.best);
  Cache cache = Cache::open(nights.search().target.cache.path, Cache::Mode::create);
  const Workload made = cache.workloads.all().front();
  const WinnerRecord winner = cache.winners.find(made.id).value();
  const auto is_found_again = [&](const std::string& sources, const std::string& toolchain) {
    for (const Workload& before : cache.workloads.all()) cache.workloads.forget(before.id);
    WorkloadKey key = made.key;
    key.source_digest += sources;
    key.toolchain += toolchain;
    cache.winners.put(cache.workloads.id(key, made.family), winner);
    SessionSubject subject(nights.search(), false, [](Remedy) {}, {});
    CHECK(subject.served() == winner.config);
    TuneResult result;
    result.best = Trial{.config = subject.space().config(subject.space().find_text(winner.config).value())};
    return subject.is_incumbent(result);
  };
  CHECK(is_found_again("", ""));
  CHECK_FALSE(is_found_again("", " of before"));
  CHECK_FALSE(is_found_again("0", ""));
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
  for (const Workload& workload : cache.workloads.all()) CHECK(workload.key.timing != Timing::overlapped);
}
