// A thread that runs what it is given, from several threads at once too.
#include "retune/lane.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

using namespace moetune;

TEST_CASE("a lane does its work in order on one thread, and what it throws is the future's") {
  std::vector<std::thread::id> threads;
  std::vector<int> order;
  {
    Lane lane;
    lane.run([&] {
      threads.push_back(std::this_thread::get_id());
      order.push_back(1);
    });
    std::future<void> failed = lane.run([] { throw std::runtime_error("it fails"); });
    lane.run([&] {
      threads.push_back(std::this_thread::get_id());
      order.push_back(2);
    });
    CHECK_THROWS_WITH(failed.get(), "it fails");
  }
  CHECK(order == std::vector<int>{1, 2});  // the end waits for all
  CHECK(threads.at(0) == threads.at(1));
  CHECK(threads.at(0) != std::this_thread::get_id());
}

TEST_CASE(
    "work that many threads give a lane runs one at a time, each thread's in its order, and all before the end") {
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::vector<int>> seen(kThreads);  // no lock guards it but the lane
  int total = 0, waited_for = 0;
  {
    Lane lane;
    std::vector<std::jthread> givers;
    std::vector<std::vector<std::future<void>>> done(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      givers.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          std::future<void> one = lane.run([&, t, i] {
            seen[static_cast<std::size_t>(t)].push_back(i);
            ++total;
          });
          if (i % 2 == 0) done[static_cast<std::size_t>(t)].push_back(std::move(one));
        }
        for (std::future<void>& one : done[static_cast<std::size_t>(t)]) one.get();
      });
    }
    givers.clear();  // waits for them
    for (const auto& futures : done) waited_for += static_cast<int>(futures.size());
  }
  CHECK(total == kThreads * kEach);
  CHECK(waited_for == kThreads * kEach / 2);
  for (const std::vector<int>& order : seen) {
    CHECK(order.size() == kEach);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("work may give its own lane more, which the end waits for too") {
  std::vector<int> order;
  {
    Lane lane;
    lane.run([&] {
      lane.run([&] { order.push_back(2); });
      order.push_back(1);
    });
  }
  CHECK(order == std::vector<int>{1, 2});
}
