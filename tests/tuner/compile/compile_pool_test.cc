#include "tuner/compile/compile_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "tests/within_a_while.h"

using namespace moetune;
using namespace std::chrono_literals;
using moetune::testing::within_a_while;

namespace {

// Stands in for NVRTC: counts, and holds every compilation until the gate opens.
class Scripted {
 public:
  CompilePool::Compile functions() {
    return {.digest = [](const CompileUnit& unit) { return unit.source; },
            .build = [this](const CompileUnit& unit, const std::stop_token&) { return build(unit); }};
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  int started() const { return started_; }
  int most_at_once() const { return most_at_once_; }

 private:
  Build build(const CompileUnit& unit) {
    ++started_;
    const int now = ++running_;
    for (int most = most_at_once_; now > most && !most_at_once_.compare_exchange_weak(most, now);) {
    }
    {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [&] { return open_; });
    }
    --running_;
    if (unit.source == "throws") throw std::runtime_error("no disk");
    Build result;
    result.digest = unit.source;
    result.outcome = unit.source == "bad" ? Outcome::compile_failed : Outcome::ok;
    result.repeatable = unit.source != "slow";
    result.seconds = 0.25;
    return result;
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  std::atomic<int> started_ = 0, running_ = 0, most_at_once_ = 0;
};

void wait_until_started(const Scripted& compiler, int count) {
  REQUIRE(within_a_while([&] { return compiler.started() >= count; }));
}

}  // namespace

TEST_CASE("equal digests in flight are one compilation, and so are later ones") {
  Scripted compiler;
  CompilePool pool(compiler.functions(), 4);
  std::vector<std::shared_future<BuildPtr>> builds;
  for (int i = 0; i < 8; ++i) builds.push_back(pool.submit({"same", {}}));
  compiler.open();
  for (const auto& build : builds) CHECK(build.get() == builds.front().get());
  CHECK(pool.submit({"same", {}}).get() == builds.front().get());
  CHECK(compiler.started() == 1);
  CHECK(pool.stats().submitted == 9);
  CHECK(pool.stats().joined == 8);
  CHECK(pool.stats().compiled == 1);
  CHECK(pool.stats().compile_seconds == doctest::Approx(0.25));
}

TEST_CASE("different units compile side by side, on no more threads than asked for") {
  Scripted compiler;
  CompilePool pool(compiler.functions(), 3);
  std::vector<std::shared_future<BuildPtr>> builds;
  for (int i = 0; i < 12; ++i) builds.push_back(pool.submit({"unit" + std::to_string(i), {}}));
  wait_until_started(compiler, 3);
  std::this_thread::sleep_for(20ms);
  CHECK(compiler.started() == 3);
  compiler.open();
  for (int i = 0; i < 12; ++i) CHECK(builds[i].get()->digest == "unit" + std::to_string(i));
  CHECK(compiler.most_at_once() == 3);
}

TEST_CASE("the store is asked first, is handed what is new and repeatable, and only on the owner's thread") {
  Scripted compiler;
  compiler.open();
  const std::thread::id owner = std::this_thread::get_id();
  bool elsewhere = false;
  std::map<std::string, Build> kept;
  kept["old"].outcome = Outcome::ok;
  kept["old"].seconds = 3;
  CompilePool::Store store;
  store.find = [&](const std::string& digest) -> std::optional<Build> {
    elsewhere |= std::this_thread::get_id() != owner;
    return kept.contains(digest) ? std::optional(kept[digest]) : std::nullopt;
  };
  store.put = [&](const Build& build) {
    elsewhere |= std::this_thread::get_id() != owner;
    kept[build.digest] = build;
  };
  CompilePool pool(compiler.functions(), 2, store);
  CHECK(pool.submit({"old", {}}).get()->seconds == 0);
  CHECK(pool.submit({"new", {}}).get()->outcome == Outcome::ok);
  CHECK(pool.submit({"bad", {}}).get()->outcome == Outcome::compile_failed);
  CHECK_FALSE(pool.submit({"slow", {}}).get()->repeatable);
  CHECK(kept.size() == 1);
  pool.flush();
  CHECK(kept.size() == 3);
  CHECK(kept.contains("new"));
  CHECK(kept.contains("bad"));
  CHECK_FALSE(elsewhere);
  CHECK(pool.stats().from_store == 1);
  CHECK(pool.stats().compiled == 3);
  kept.clear();
  pool.flush();
  CHECK(kept.empty());
}

TEST_CASE("what is wanted now is compiled before what is compiled ahead, and moves up once it is wanted") {
  std::mutex mutex;
  std::vector<std::string> order;
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  CompilePool pool({.digest = [](const CompileUnit& unit) { return unit.source; },
                    .build =
                        [&](const CompileUnit& unit, const std::stop_token&) {
                          {
                            const std::lock_guard lock(mutex);
                            order.push_back(unit.source);
                          }
                          opened.wait();
                          Build build;
                          build.outcome = Outcome::ok;
                          return build;
                        }},
                   1);
  std::vector<std::shared_future<BuildPtr>> builds = {pool.submit({"first", {}})};
  const auto started = [&] {
    const std::lock_guard lock(mutex);
    return !order.empty();
  };
  REQUIRE(within_a_while(started));
  for (const char* name : {"ahead1", "ahead2", "ahead3"})
    builds.push_back(pool.submit({name, {}}, CompilePool::Urgency::ahead));
  builds.push_back(pool.submit({"now", {}}));
  builds.push_back(pool.submit({"ahead3", {}}));
  gate.set_value();
  for (const auto& build : builds) CHECK(build.get()->outcome == Outcome::ok);
  CHECK(order == std::vector<std::string>{"first", "now", "ahead3", "ahead1", "ahead2"});
  CHECK(pool.stats().compiled == 5);
}

TEST_CASE("a thread is idle that has nothing to compile and nothing waiting for it") {
  std::promise<void> gate;
  const std::shared_future<void> opened = gate.get_future().share();
  CompilePool pool({.digest = [](const CompileUnit& unit) { return unit.source; },
                    .build =
                        [&](const CompileUnit&, const std::stop_token&) {
                          opened.wait();
                          return Build();
                        }},
                   3);
  CHECK(pool.idle() == 3);
  std::vector<std::shared_future<BuildPtr>> builds = {pool.submit({"a", {}})};
  CHECK(pool.idle() == 2);
  builds.push_back(pool.submit({"a", {}}));
  CHECK(pool.idle() == 2);
  for (const char* name : {"b", "c", "d"}) builds.push_back(pool.submit({name, {}}, CompilePool::Urgency::ahead));
  CHECK(pool.idle() == 0);
  gate.set_value();
  for (const auto& build : builds) build.wait();
  CHECK(within_a_while([&] { return pool.idle() == 3; }));
}

TEST_CASE("what a caller cannot go on without is compiled before all that waits, and is stored at once") {
  std::promise<void> gate, begun;
  const std::shared_future<void> opened = gate.get_future().share();
  std::vector<std::string> order;
  std::vector<std::string> stored;
  CompilePool pool({.digest = [](const CompileUnit& unit) { return unit.source; },
                    .build =
                        [&](const CompileUnit& unit, const std::stop_token&) {
                          if (order.empty()) {
                            begun.set_value();
                            opened.wait();
                          }
                          order.push_back(unit.source);
                          Build build;
                          build.digest = unit.source;
                          return build;
                        }},
                   1, {.put = [&](const Build& build) { stored.push_back(build.digest); }});
  std::vector<std::shared_future<BuildPtr>> waiting;
  waiting.push_back(pool.submit({"running", {}}));
  begun.get_future().wait();
  for (const char* name : {"a", "b", "c"}) waiting.push_back(pool.submit({name, {}}));
  waiting.push_back(pool.submit({"ahead", {}}, CompilePool::Urgency::ahead));
  std::thread opener([&] {
    within_a_while([&] { return pool.stats().submitted == 8; });  // what is built now, too
    gate.set_value();
  });
  const std::vector<BuildPtr> builds = pool.build_now({{"x", {}}, {"c", {}}, {"ahead", {}}});
  opener.join();
  CHECK(builds.size() == 3);
  CHECK(builds[1]->digest == "c");
  CHECK(std::find(stored.begin(), stored.end(), "x") != stored.end());
  for (const auto& build : waiting) build.wait();
  CHECK(order == std::vector<std::string>{"running", "x", "c", "ahead", "a", "b"});
}

TEST_CASE("a stop request ends the wait for what does not compile") {
  Scripted compiler;
  CompilePool pool(compiler.functions(), 1);
  std::stop_source stop;
  pool.watch(stop.get_token(), {});
  std::thread stopper([&] {
    wait_until_started(compiler, 1);
    stop.request_stop();
  });
  CHECK(pool.build_now({{"a", {}}, {"b", {}}}) == std::vector<BuildPtr>{nullptr, nullptr});
  stopper.join();
  pool.watch({}, {});
  compiler.open();
  CHECK(pool.build_now({{"a", {}}}).front() != nullptr);
}

TEST_CASE("an exception reaches the one who waits") {
  Scripted compiler;
  compiler.open();
  CompilePool pool(compiler.functions(), 1);
  const auto broken = pool.submit({"throws", {}});
  CHECK_THROWS_WITH_AS(broken.get(), "no disk", std::runtime_error);
  CHECK(pool.submit({"good", {}}).get()->outcome == Outcome::ok);
}

TEST_CASE("shutting down drops what has not started and waits for what has") {
  Scripted compiler;
  std::vector<std::shared_future<BuildPtr>> builds;
  std::promise<void> goes;
  std::thread opener([&] {
    goes.get_future().wait();
    std::this_thread::sleep_for(200ms);  // it has long dropped what waits
    compiler.open();
  });
  {
    CompilePool pool(compiler.functions(), 2);
    for (int i = 0; i < 50; ++i) builds.push_back(pool.submit({"unit" + std::to_string(i), {}}));
    wait_until_started(compiler, 2);
    goes.set_value();
  }
  opener.join();
  CHECK(compiler.started() == 2);
  CHECK(builds[0].get()->outcome == Outcome::ok);
  CHECK(builds[1].get()->outcome == Outcome::ok);
  CHECK_THROWS_AS(builds[2].get(), std::future_error);
  CHECK_THROWS_AS(builds[49].get(), std::future_error);
}

TEST_CASE("what hangs when a pool ends is stopped after a second, and what ends by itself is not") {
  std::atomic<bool> stopped = false;
  std::atomic<int> started = 0;
  std::shared_future<BuildPtr> hung, slow;
  const auto begin = std::chrono::steady_clock::now();
  {
    CompilePool pool({.digest = [](const CompileUnit& unit) { return unit.source; },
                      .build =
                          [&](const CompileUnit& unit, const std::stop_token& stop) {
                            ++started;
                            const auto limit = std::chrono::steady_clock::now() + (unit.source == "hung" ? 20s : 200ms);
                            while (!stop.stop_requested() && std::chrono::steady_clock::now() < limit)
                              std::this_thread::sleep_for(1ms);
                            if (stop.stop_requested()) stopped = true;
                            Build build;
                            build.outcome = stop.stop_requested() ? Outcome::compile_failed : Outcome::ok;
                            return build;
                          }},
                     2);
    slow = pool.submit({"slow", {}});
    hung = pool.submit({"hung", {}});
    while (started < 2) std::this_thread::sleep_for(1ms);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 15s);
  CHECK(stopped);
  CHECK(slow.get()->outcome == Outcome::ok);
  CHECK(hung.get()->outcome == Outcome::compile_failed);
}

TEST_CASE("a pool over NVRTC compiles a real unit once") {
  Compiler::Options options;
  options.architecture = "sm_80";
  options.reader = [](const std::string&) { return "extern \"C\" __global__ void k(float* p) { p[N] = N; }"; };
  const Compiler compiler(options);
  CompilePool pool(compiler, 2);
  std::vector<std::shared_future<BuildPtr>> builds;
  for (int i = 0; i < 8; ++i) builds.push_back(pool.submit({"k.cu", {{"N", std::to_string(i / 4)}}}));
  for (const auto& build : builds) CHECK(build.get()->outcome == Outcome::ok);
  CHECK(pool.stats().compiled == 2);
  CHECK(builds[0].get()->digest != builds[4].get()->digest);
}
