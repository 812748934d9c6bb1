// Whether a job has its device to itself: runs the canary between groups of measurements, and while somebody
// else uses the device waits for a bounded time.
//
// Measurements between two quiet canaries are sound; the rest are taken again, or marked as contended. Belongs to the
// measuring thread; its arguments must outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "tuner/contention.h"
#include "tuner/device.h"
#include "tuner/events.h"

namespace moetune {

class QuietWatch {
 public:
  // `patience_s` bounds all waiting and measuring again together.
  QuietWatch(Device& device, const Events& events, std::uint64_t patience_s, std::stop_token stop)
      : device_(device), events_(events), patience_s_(static_cast<double>(patience_s)), stop_(std::move(stop)) {}
  QuietWatch(Device&, const Events&&, std::uint64_t, std::stop_token) = delete;  // it would not outlive this

  // After it nothing waits any more.
  void end_patience_at(std::chrono::steady_clock::time_point deadline) { deadline_ = deadline; }

  // Whether so much time has passed since the last canary that the next should run.
  bool is_due() const;

  // Runs the canary: true if nobody disturbed it. Throws Stopped.
  bool is_quiet();

  // After a disturbed canary: waits until the device is quiet and calls `again`, until a quiet canary follows
  // that. False if patience ends first; from then on nothing waits. Throws Stopped.
  bool take_again(const std::function<void()>& again);

  // Measures by `measure`, between quiet canaries if that can be had. True if it was.
  bool measure_quietly(const std::function<void()>& measure);

  Contention seen;

 private:
  using Clock = std::chrono::steady_clock;

  bool has_patience(Clock::time_point since) const;
  bool wait_until_quiet(Clock::time_point since);

  Device& device_;
  const Events& events_;
  double patience_s_;
  std::stop_token stop_;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point last_ = Clock::now();
  CanaryReading disturbance_;  // the latest
};

}  // namespace moetune
