// The queue that equal devices take workloads from: stealing, shared winners, and devices that die.
#include "retune/work_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using moetune::WorkQueue;
using Turn = WorkQueue::Turn;

namespace {

// Two threads a device, one for its items and one for checks.
template <typename Work>
void run(WorkQueue& queue, std::size_t devices, const Work& work) {
  std::vector<std::jthread> threads;
  for (std::size_t device = 0; device < devices; ++device) {
    threads.emplace_back([&queue, &work, device] {
      while (const auto turn = queue.take(device)) work(queue, device, *turn);
    });
    threads.emplace_back([&queue, &work, device] {
      while (const auto turn = queue.take_check(device)) work(queue, device, *turn);
    });
  }
}

}  // namespace

TEST_CASE("one device takes all in order") {
  WorkQueue queue(3, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto turn = queue.take(0);
    REQUIRE(turn);
    CHECK(turn->item == i);
    queue.done(0, *turn, true);  // nobody is there to check it
  }
  CHECK_FALSE(queue.take(0));
  CHECK_FALSE(queue.take_check(0));
}

TEST_CASE("a winner is checked while the other device goes on with its own item") {
  WorkQueue queue(2, 2);
  const auto first = queue.take(0), second = queue.take(1);
  queue.done(0, *first, true);
  const auto check = queue.take_check(1);  // its own item is under way
  REQUIRE(check);
  CHECK(check->check);
  CHECK(check->item == 0);
  queue.done(1, *check);
  queue.done(1, *second, true);
  CHECK(queue.take_check(0)->item == 1);
  CHECK_FALSE(queue.take(1));
  CHECK_FALSE(queue.take_check(1));
  CHECK_FALSE(queue.take_check(0));
}

TEST_CASE("who waits for a check ends with the last item, also if no device is left to take it") {
  WorkQueue queue(1, 2);
  std::jthread checker([&] { CHECK_FALSE(queue.take_check(1)); });
  const auto turn = queue.take(0);
  CHECK(queue.failed(0, *turn));
  CHECK(queue.leave(0));
  CHECK_FALSE(queue.leave(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(queue.leave(1));
  checker.join();
  CHECK(queue.devices_left() == 0);
  CHECK(queue.not_taken() == std::vector<std::size_t>{0});
}

TEST_CASE("every item is done once, and a winner is checked once by each other device") {
  constexpr std::size_t kItems = 40, kDevices = 4;
  WorkQueue queue(kItems, kDevices);
  std::atomic<int> done[kItems] = {}, checks[kItems] = {};
  run(queue, kDevices, [&](WorkQueue& q, std::size_t device, const Turn& turn) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++(turn.check ? checks : done)[turn.item];
    q.done(device, turn, !turn.check);
  });
  for (std::size_t i = 0; i < kItems; ++i) {
    CHECK(done[i] == 1);
    CHECK(checks[i] == int{kDevices} - 1);
  }
}

TEST_CASE("a slow device holds nobody up: the others take what it does not reach") {
  WorkQueue queue(10, 2);
  std::atomic<int> by[2] = {};
  run(queue, 2, [&](WorkQueue& q, std::size_t device, const Turn& turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(device == 0 ? 60 : 5));
    ++by[device];
    q.done(device, turn);
  });
  CHECK(by[0] + by[1] == 10);
  CHECK(by[1] > by[0]);
}

TEST_CASE("what a device dies under another one takes, even if it had nothing left to do") {
  WorkQueue queue(2, 2);
  const auto first = queue.take(0), second = queue.take(1);
  std::optional<Turn> third;
  std::jthread other([&] {
    queue.done(1, *second);
    third = queue.take(1);  // waits for what becomes of the first
    queue.done(1, *third);
    CHECK_FALSE(queue.take(1));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(queue.failed(0, *first));
  queue.leave(0);
  other.join();
  REQUIRE(third);
  CHECK(third->item == 0);
  CHECK_FALSE(queue.take(0));
  CHECK(queue.devices_left() == 1);
}

TEST_CASE("an item under which every device fails is not taken a second time by any") {
  WorkQueue queue(1, 2);
  const auto first = queue.take(0);
  CHECK(queue.failed(0, *first));
  CHECK_FALSE(queue.take(0));
  const auto again = queue.take(1);
  REQUIRE(again);
  CHECK_FALSE(queue.failed(1, *again));
  CHECK_FALSE(queue.take(1));
  CHECK(queue.not_taken().empty());
}

TEST_CASE("after a stop nothing is taken, and what was not reached is known") {
  WorkQueue queue(3, 2);
  const auto turn = queue.take(0);
  queue.stop();
  CHECK_FALSE(queue.take(1));
  queue.done(0, *turn, true);
  CHECK_FALSE(queue.take(0));
  CHECK(queue.not_taken() == std::vector<std::size_t>{1, 2});
}
