// The queue that equal devices take workloads from: stealing, shared winners, and devices that die.
#include "retune/work_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using moetune::WorkQueue;
using Turn = WorkQueue::Turn;

namespace {

// A thread a device: `work` returns false where the device fails under the item.
template <typename Work>
void run(WorkQueue& queue, std::size_t devices, const Work& work) {
  std::vector<std::jthread> threads;
  for (std::size_t device = 0; device < devices; ++device) {
    threads.emplace_back([&queue, &work, device] {
      while (const auto turn = queue.take(device)) work(queue, device, *turn);
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
