// A search and checks beside each other on one device: turns on the GPU, and room in its memory.
#include "retune/device_share.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace moetune;
using namespace std::chrono_literals;

namespace {

struct Use {
  std::atomic<int> now = 0, most = 0, calls = 0;
};

// Notes how many devices of its GPU are used at once.
class CountingDevice : public Device {
 public:
  explicit CountingDevice(Use& use) : use_(use) {}
  ~CountingDevice() override { use(); }
  const DeviceInfo& info() const override { return info_; }
  void open(const Kernel&, const Problem&, std::uint64_t) override { use(); }
  TrialResult run(const Candidate&, const MeasurePolicy&) override {
    use();
    return {.message = "ran"};
  }
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, int, Timing timing) override {
    use();
    return std::vector<TrialResult>(finalists.size(), {.message = std::string(timing_name(timing))});
  }
  std::optional<CanaryReading> canary() override {
    use();
    return CanaryReading{.elapsed_us = 5000};
  }
  TrialResult verify(const Candidate&, std::uint64_t, double) override {
    use();
    return {.message = "verified"};
  }

 private:
  void use() {
    ++use_.calls;
    use_.most = std::max(use_.most.load(), ++use_.now);
    std::this_thread::sleep_for(1ms);
    --use_.now;
  }

  Use& use_;
  DeviceInfo info_;
};

}  // namespace

TEST_CASE("two devices with one turn never use the GPU at once") {
  Use use;
  std::mutex turn;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        const auto device = take_turns(std::make_unique<CountingDevice>(use), turn);
        for (int round = 0; round < 10; ++round) {
          CHECK(device->run({}, {}).message == "ran");
          CHECK(device->canary()->elapsed_us == 5000);
          CHECK(device->duel({{}, {}}, 3, Timing::chained).at(1).message == timing_name(Timing::chained));
          CHECK(device->verify({}, 1, 1).message == "verified");
        }
      });
    }
  }
  CHECK(use.calls == 2 * (4 * 10 + 1));  // the end of each too
  CHECK(use.most == 1);
}

TEST_CASE("memory is taken in order, and what does not fit beside others waits for them") {
  MemoryRoom room(100);
  std::vector<int> order;
  std::mutex mutex;
  const auto note = [&](int who) {
    const std::lock_guard lock(mutex);
    order.push_back(who);
  };
  std::unique_ptr<MemoryRoom::Hold> first(new MemoryRoom::Hold(room.take(60)));
  { const MemoryRoom::Hold beside = room.take(40); }
  std::jthread large([&] {
    const MemoryRoom::Hold hold = room.take(MemoryRoom::kAll);
    note(1);
    std::this_thread::sleep_for(20ms);
    note(2);
  });
  std::this_thread::sleep_for(20ms);
  std::jthread small([&] {  // would fit, but comes later
    const MemoryRoom::Hold hold = room.take(1);
    note(3);
  });
  std::this_thread::sleep_for(20ms);
  {
    const std::lock_guard lock(mutex);
    CHECK(order.empty());
  }
  first.reset();
  large.join();
  small.join();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("without a limit all fit") {
  MemoryRoom room(std::nullopt);
  const MemoryRoom::Hold one = room.take(MemoryRoom::kAll), two = room.take(MemoryRoom::kAll);
}

TEST_CASE("what breaks down beside others is done once more alone, and what breaks down alone is broken") {
  MemoryRoom room(100);
  int tries = 0;
  const auto breaks = [&]() -> int {
    ++tries;
    throw BrokenEnvironment("one process too many");
  };
  CHECK_THROWS_AS(room.work_beside(10, breaks), BrokenEnvironment);
  CHECK(tries == 1);

  tries = 0;
  std::atomic<bool> is_beside = true;
  std::jthread other([&] {
    const MemoryRoom::Hold hold = room.take(50);
    is_beside.wait(true);
    std::this_thread::sleep_for(20ms);
  });
  while (!room.is_held()) std::this_thread::sleep_for(1ms);
  CHECK(room.work_beside(10, [&] {
    if (++tries == 1) {
      is_beside = false;
      is_beside.notify_all();
      throw BrokenEnvironment("one process too many");
    }
    return 7;
  }) == 7);
  CHECK(tries == 2);
}
