// The queue that equal devices take workloads from: stealing, shared winners, and devices that die.
#include "retune/work_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/within_a_while.h"

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

void wait_until_waiting(const WorkQueue& queue, std::size_t threads) {
  CHECK(moetune::testing::within_a_while([&] { return queue.waiting() >= threads; }));
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
  CHECK(queue.expects_check(1));
  const auto first = queue.take(0), second = queue.take(1);
  queue.done(0, *first, true);
  const auto check = queue.take_check(1);  // its own item is under way
  REQUIRE(check);
  CHECK(check->check);
  CHECK(check->item == 0);
  queue.done(1, *check);
  queue.done(1, *second, true);
  CHECK(queue.expects_check(0));  // nothing is under way any more, but one is there
  CHECK_FALSE(queue.expects_check(1));
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
  wait_until_waiting(queue, 1);
  CHECK(queue.leave(1));
  checker.join();
  CHECK(queue.devices_left() == 0);
  CHECK(queue.lost() == std::vector<std::size_t>{0});
}

TEST_CASE("every item is done once, and a winner is checked once by each other device") {
  constexpr std::size_t kItems = 40, kDevices = 4;
  WorkQueue queue(kItems, kDevices);
  std::atomic<int> done[kItems] = {}, checks[kItems] = {};
  run(queue, kDevices, [&](WorkQueue& q, std::size_t device, const Turn& turn) {
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
  const auto slow = queue.take(0);
  int by_other = 0;
  std::jthread other([&] {
    while (const auto turn = queue.take(1)) {
      ++by_other;
      queue.done(1, *turn);
    }
  });
  wait_until_waiting(queue, 1);  // for what becomes of the slow one's item
  CHECK(by_other == 9);
  queue.done(0, *slow);
  other.join();
  CHECK(by_other == 9);
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
  wait_until_waiting(queue, 1);
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
  CHECK_FALSE(queue.has_item(1));  // it is under way
  CHECK(queue.failed(0, *first));
  CHECK_FALSE(queue.has_item(0));
  CHECK(queue.has_item(1));
  CHECK_FALSE(queue.take(0));
  const auto again = queue.take(1);
  REQUIRE(again);
  CHECK_FALSE(queue.failed(1, *again));
  CHECK_FALSE(queue.take(1));
  CHECK(queue.lost().empty());  // it has failed, and its last device has said so
}

TEST_CASE("an item is lost if all that are left have failed under it, also if the last to try it is gone") {
  WorkQueue queue(3, 2);
  const auto first = queue.take(0), second = queue.take(1);
  CHECK(queue.failed(0, *first));  // the other one is to take it
  const auto third = queue.take(0);
  CHECK(queue.failed(1, *second));
  CHECK(queue.leave(1));  // before it has
  queue.done(0, *third);
  CHECK(queue.take(0)->item == second->item);
  queue.done(0, *second);
  CHECK_FALSE(queue.take(0));
  CHECK(queue.devices_left() == 1);
  CHECK(queue.lost() == std::vector<std::size_t>{0});
}

TEST_CASE("after a stop nothing is taken, and what was not reached is not lost: the next night has it") {
  WorkQueue queue(3, 2);
  const auto turn = queue.take(0);
  queue.stop();
  CHECK_FALSE(queue.take(1));
  queue.done(0, *turn, true);
  CHECK_FALSE(queue.take(0));
  CHECK(queue.lost().empty());
}
