#include "retune/device_share.h"

#include <utility>

namespace moetune {
namespace {

class TurnDevice : public Device {
 public:
  TurnDevice(std::unique_ptr<Device> device, std::mutex& turn) : device_(std::move(device)), turn_(turn) {}
  ~TurnDevice() override {
    const std::lock_guard mine(turn_);  // a worker that ends frees its memory
    device_.reset();
  }

  const DeviceInfo& info() const override { return device_->info(); }
  void set_stop(std::stop_token stop) override { device_->set_stop(std::move(stop)); }
  void open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) override {
    const std::lock_guard mine(turn_);
    device_->open(kernel, problem, seed);
  }
  TrialResult run(const Candidate& candidate, const MeasurePolicy& policy) override {
    const std::lock_guard mine(turn_);
    return device_->run(candidate, policy);
  }
  std::vector<TrialResult> duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) override {
    const std::lock_guard mine(turn_);
    return device_->duel(finalists, policy);
  }
  std::optional<CanaryReading> canary() override {
    const std::lock_guard mine(turn_);
    return device_->canary();
  }
  TrialResult verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) override {
    const std::lock_guard mine(turn_);
    return device_->verify(candidate, seed, time_limit_s);
  }

 private:
  std::unique_ptr<Device> device_;
  std::mutex& turn_;
};

}  // namespace

std::unique_ptr<Device> take_turns(std::unique_ptr<Device> device, std::mutex& turn) {
  return std::make_unique<TurnDevice>(std::move(device), turn);
}

MemoryRoom::Hold MemoryRoom::take(std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_++;
  changed_.wait(lock,
                [&] { return served_ == ticket && (!bytes_ || holders_ == 0 || held_ + bytes <= *bytes_); });
  ++served_;
  const bool joined = holders_++ > 0;
  held_ += bytes;
  changed_.notify_all();
  return {*this, bytes, ticket, joined};
}

MemoryRoom::Use MemoryRoom::use() const {
  const std::lock_guard lock(mutex_);
  return {.asked = next_, .served = served_, .holders = holders_};
}

bool MemoryRoom::Hold::was_shared() const {
  const std::lock_guard lock(room_.mutex_);
  return joined_ || room_.served_ > ticket_ + 1;
}

void MemoryRoom::give_back(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  --holders_;
  held_ -= bytes;
  changed_.notify_all();
}

ReworkResult rework_or_postpone(MemoryRoom& room, std::int64_t bytes,
                                const std::function<ReworkResult()>& work,
                                const std::function<std::string()>& shortage) {
  try {
    return room.work_beside(bytes, work);
  } catch (const BrokenEnvironment&) {
    std::string taken;
    try {
      taken = shortage();
    } catch (const BrokenEnvironment&) {  // a device that is gone: what it said first counts
    }
    if (taken.empty()) throw;
    return {.verdict = ReworkVerdict::postponed, .reason = "somebody took the memory: " + taken};
  }
}

}  // namespace moetune
