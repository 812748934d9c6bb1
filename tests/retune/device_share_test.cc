// A search and checks beside each other on one device: turns on the GPU, and room in its memory.
#include "retune/device_share.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/registry.h"
#include "tests/within_a_while.h"

using namespace moetune;

namespace {

// Notes of each of its calls whether `turn` was held meanwhile.
class WatchingDevice : public Device {
 public:
  WatchingDevice(std::mutex& turn, std::vector<bool>& held) : turn_(turn), held_(held) {}
  ~WatchingDevice() override { look(); }
  const DeviceInfo& info() const override { return info_; }
  void open(const Kernel&, const Problem&, std::uint64_t) override { look(); }
  TrialResult run(const Candidate&, const MeasurePolicy&) override {
    look();
    return {.message = "ran"};
  }
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override {
    look();
    return std::vector<TrialResult>(finalists.size(), {.message = std::string(timing_name(policy.timing))});
  }
  std::optional<CanaryReading> canary() override {
    look();
    return CanaryReading{.elapsed_us = 5000};
  }
  TrialResult verify(const Candidate&, std::uint64_t, double) override {
    look();
    return {.message = "verified"};
  }

 private:
  void look() {
    bool held = false;
    std::jthread([&] {  // a mutex may be tried by another thread alone
      held = !turn_.try_lock();
      if (!held) turn_.unlock();
    })
        .join();
    held_.push_back(held);
  }

  std::mutex& turn_;
  std::vector<bool>& held_;
  DeviceInfo info_;
};

void wait_until_asked(const MemoryRoom& room, std::uint64_t times, const std::stop_token& stop = {}) {
  CHECK(testing::within_a_while([&] { return room.use().asked >= times || stop.stop_requested(); }));
}

}  // namespace

TEST_CASE("all that a device does on its GPU holds the turn, and nothing is held between") {
  std::mutex turn;
  std::vector<bool> held;
  {
    const auto device = take_turns(std::make_unique<WatchingDevice>(turn, held), turn);
    device->info();
    REQUIRE(turn.try_lock());
    turn.unlock();
    device->open(find_kernel("decode_kernel"), {}, 0);
    CHECK(device->run({}, {}).message == "ran");
    CHECK(device->canary()->elapsed_us == 5000);
    CHECK(device->duel({{}, {}}, {.rounds = 3, .timing = Timing::chained}).at(1).message ==
          timing_name(Timing::chained));
    CHECK(device->verify({}, 1, 1).message == "verified");
  }
  CHECK(held == std::vector<bool>(6, true));  // the end of each too
  CHECK(turn.try_lock());
  turn.unlock();
}

TEST_CASE("a turn is given back by what throws") {
  class Broken : public WatchingDevice {
   public:
    using WatchingDevice::WatchingDevice;
    std::optional<CanaryReading> canary() override { throw BrokenEnvironment("gone"); }
  };
  std::mutex turn;
  std::vector<bool> held;
  const auto device = take_turns(std::make_unique<Broken>(turn, held), turn);
  CHECK_THROWS_AS(device->canary(), BrokenEnvironment);
  CHECK(device->run({}, {}).message == "ran");  // would wait for ever
}

TEST_CASE("memory is taken in order, and what does not fit beside others waits for them") {
  MemoryRoom room(100);
  std::unique_ptr<MemoryRoom::Hold> first(new MemoryRoom::Hold(room.take(60)));
  { const MemoryRoom::Hold beside = room.take(40); }
  MemoryRoom::Use with_large, with_small;
  std::jthread large([&] {
    const MemoryRoom::Hold hold = room.take(MemoryRoom::kAll);
    wait_until_asked(room, 4);
    with_large = room.use();
  });
  wait_until_asked(room, 3);
  CHECK(room.use().holders == 1);
  std::jthread small([&] {  // would fit, but comes later
    const MemoryRoom::Hold hold = room.take(1);
    with_small = room.use();
  });
  wait_until_asked(room, 4);
  CHECK(room.use().holders == 1);
  first.reset();
  large.join();
  small.join();
  CHECK(with_large.holders == 1);
  CHECK(with_large.served == 3);
  CHECK(with_small.served == 4);
  CHECK(with_small.holders == 1);
}

TEST_CASE("without a limit all fit") {
  MemoryRoom room(std::nullopt);
  const MemoryRoom::Hold one = room.take(MemoryRoom::kAll), two = room.take(MemoryRoom::kAll);
  CHECK(room.use().holders == 2);
}

namespace {

// Work that breaks down as long as somebody else holds memory; he gives it back once the work asks for all of it.
struct Beside {
  explicit Beside(MemoryRoom& room_)
      : room(room_), other([this](const std::stop_token& stop) {
          std::unique_ptr<MemoryRoom::Hold> hold(new MemoryRoom::Hold(room.take(50)));
          wait_until_asked(room, 3, stop);  // himself, the work beside him, the work alone
          tries_beside = tries.load();
          is_short = false;
          hold.reset();
        }) {
    wait_until_asked(room, 1);
  }
  template <typename Result>
  Result work(Result good) {
    ++tries;
    if (room.use().holders > 1) throw BrokenEnvironment("one process too many");
    return good;
  }

  MemoryRoom& room;
  std::atomic<int> tries = 0, tries_beside = 0;
  std::atomic<bool> is_short = true;
  std::jthread other;
};

}  // namespace

TEST_CASE("what breaks down beside others is done once more alone, and what breaks down alone is broken") {
  MemoryRoom room(100);
  int tries = 0;
  const auto breaks = [&]() -> int {
    ++tries;
    throw BrokenEnvironment("one process too many");
  };
  CHECK_THROWS_AS(room.work_beside(10, breaks), BrokenEnvironment);
  CHECK(tries == 1);

  MemoryRoom shared(100);
  Beside beside(shared);
  CHECK(shared.work_beside(10, [&] { return beside.work(7); }) == 7);
  CHECK(beside.tries.load() == 2);
  CHECK(beside.tries_beside.load() == 1);
}

TEST_CASE("memory that a sibling's check holds postpones nothing: the work has the room alone before that") {
  MemoryRoom room(100);
  Beside beside(room);
  const ReworkResult result = rework_or_postpone(
      room, 10, [&] { return beside.work(ReworkResult{.verdict = ReworkVerdict::tuned}); },
      [&] { return beside.is_short ? "the GPU has 0.10 GiB free" : ""; });
  CHECK(result.verdict == ReworkVerdict::tuned);
  CHECK(beside.tries.load() == 2);
}

TEST_CASE("what breaks down alone while memory is short is postponed, else broken") {
  MemoryRoom room(100);
  const auto breaks = []() -> ReworkResult { throw BrokenEnvironment("out of memory"); };
  const ReworkResult result =
      rework_or_postpone(room, 10, breaks, [] { return "the GPU has 0.10 GiB free"; });
  CHECK(result.verdict == ReworkVerdict::postponed);
  CHECK(result.reason == "somebody took the memory: the GPU has 0.10 GiB free");
  CHECK_THROWS_WITH_AS(rework_or_postpone(room, 10, breaks, [] { return ""; }), "out of memory",
                       BrokenEnvironment);
  const auto gone = []() -> std::string { throw BrokenEnvironment("no GPU answers"); };
  CHECK_THROWS_WITH_AS(rework_or_postpone(room, 10, breaks, gone), "out of memory", BrokenEnvironment);
}
