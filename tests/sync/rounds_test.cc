// Rounds: a service that is away, several sidecars on a folder, an end at any moment.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>

#include "base/error.h"
#include "tests/refusal.h"
#include "tests/sync/support.h"
#include "tests/within_a_while.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

using Clock = std::chrono::steady_clock;
using Names = std::vector<std::string>;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

TEST_CASE("waits grow from failure to failure up to a quarter of an hour, and are spread") {
  CHECK(backoff_s(60, 0, 0) == doctest::Approx(54));
  CHECK(backoff_s(60, 0, 1) == doctest::Approx(66));
  CHECK(backoff_s(60, 1, 1) == 60);
  CHECK(backoff_s(60, 2, 1) == 120);
  CHECK(backoff_s(60, 3, 0) == 120);
  for (int failures = 5; failures < 2000; failures += 399) CHECK(backoff_s(60, failures, 1) == 900);
  CHECK(backoff_s(3600, 3, 1) == 3600);
}

TEST_CASE("while the service is away what was there stays, and all is done when it is back") {
  const SyncFolder folder;
  FakeService service;
  service.packs["a.pack"] = real_pack();
  std::string url;
  {
    const ScriptedServer server([&](const auto& request) { return service.answer(request); });
    sync_once(server, folder);
    url = server.url();
  }
  folder.write_misses("misses.json", {{"batch=1", 1}});
  SyncRequest request{.service = {.url = url}, .folder = folder.path(), .once = true};
  SyncRound round;
  CHECK(sync(request, [&](const SyncRound& one) { round = one; }, {}));
  CHECK(round.failure.find("cannot reach it") != std::string::npos);
  CHECK(folder.visible() == Names{"a.pack", "misses.json.claimed"});
  CHECK(folder.read("a.pack") == real_pack());

  const ScriptedServer server([&](const auto& asked) { return service.answer(asked); });
  round = sync_once(server, folder);
  CHECK(round.failure == "");
  CHECK(round.misses == 1);
  CHECK(folder.visible() == Names{"a.pack", "misses.json.posted"});
}

TEST_CASE("Retry-After is kept to") {
  const SyncFolder folder;
  FakeService service;
  service.answers["/v1/packs"] = http_answer(429, "", "Retry-After: 700\r\n");
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  CHECK(sync_once(server, folder).next_s >= 700);
  service.answers["/v1/packs"] = http_answer(503, "", "Retry-After: 999999\r\n");
  CHECK(sync_once(server, folder).next_s == 900);
  service.answers["/v1/packs"] = http_answer(503, "", "Retry-After: never\r\n");
  CHECK(sync_once(server, folder).next_s <= 60);
}

TEST_CASE("a stop ends a wait and a transfer at once") {
  const SyncFolder folder;
  FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const SyncRequest request{.service = {.url = server.url()}, .folder = folder.path(), .every_s = 600};
  std::atomic<int> rounds{0};
  // Seconds from a stop, which comes at some moment once `begun`, to the end.
  const auto ends_after = [&](const std::function<bool()>& begun) {
    std::stop_source stop;
    Clock::time_point asked;
    std::thread stopper([&] {
      CHECK(within_a_while(begun));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      asked = Clock::now();
      stop.request_stop();
    });
    CHECK_FALSE(sync(
        request, [&](const SyncRound&) { ++rounds; }, stop.get_token()));
    stopper.join();
    return seconds_since(asked);
  };
  CHECK(ends_after([&] { return rounds > 0; }) < 60);  // of a wait of 600
  service.packs["a.pack"] = real_pack();
  service.etag = "\"2\"";
  service.answers["/v1/packs/a.pack"] = stalled();
  // A piece of an answer has 20 s.
  CHECK(ends_after([&] { return server.requests().back().path == "/v1/packs/a.pack"; }) < 10);
  CHECK(folder.visible().empty());
}

TEST_CASE("several sidecars on one folder post each miss once and install each pack once") {
  const SyncFolder folder;
  FakeService service;
  service.packs = {{"a.pack", real_pack()}, {"b.pack", other_pack()}};
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  for (int i = 0; i < 10; ++i) folder.write_misses(std::to_string(i) + ".misses.json", {{"batch=1", 1}});
  std::atomic<std::size_t> misses{0}, installed{0}, failures{0};
  std::vector<std::thread> sidecars;
  for (int i = 0; i < 4; ++i) {
    sidecars.emplace_back([&] {
      const SyncRequest request{.service = {.url = server.url()}, .folder = folder.path(), .once = true};
      sync(request,
           [&](const SyncRound& round) {
             misses += round.misses;
             installed += round.installed.size();
             // On a slow machine the last of them waits in vain, and says so.
             failures += !round.failure.empty() && !round.failure.starts_with("another moetune sync is at work");
           },
           {});
    });
  }
  for (std::thread& sidecar : sidecars) sidecar.join();
  CHECK(misses == 10);
  CHECK(installed == 2);
  CHECK(failures == 0);
}

TEST_CASE("requests that cannot be") {
  const SyncFolder folder;
  const auto refused = [&](SyncRequest request) {
    return refusal_of([&] {
      request.once = true;
      sync(request, [](const SyncRound&) {}, {});
    });
  };
  CHECK(refused({.service = {.url = "http://a"}, .folder = folder / "absent"}).find("is no folder") !=
        std::string::npos);
  CHECK(refused({.service = {.url = "ftp://a"}, .folder = folder.path()}) != "");
  CHECK(refused({.service = {.url = "http://a/?b"}, .folder = folder.path()}).find("has a query") != std::string::npos);
  CHECK(refused({.service = {.url = "http://a"}, .folder = folder.path(), .trusted_keys = {"none"}}) != "");
}

TEST_CASE("a token is sent") {
  const SyncFolder folder;
  const FakeService service;
  const ScriptedServer server([&](const auto& request) { return service.answer(request); });
  const SyncRequest request{
      .service = {.url = server.url() + "/", .token = "secret-token"}, .folder = folder.path(), .once = true};
  CHECK_FALSE(sync(request, [](const SyncRound&) {}, {}));
  CHECK(server.requests().back().has("Authorization: Bearer secret-token\r\n"));
  CHECK(server.requests().back().path == "/v1/packs");
}
