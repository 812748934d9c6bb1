#include "tuner/quiet_watch.h"

#include <algorithm>
#include <thread>

namespace moetune {
namespace {

// A canary takes 5 ms: 1% of a search.
constexpr std::chrono::milliseconds kEvery{500};
constexpr std::chrono::milliseconds kPause{100};
// A load that pauses now and then shows a quiet canary now and then.
constexpr int kQuietInARow = 3;

}  // namespace

bool QuietWatch::is_due() const { return Clock::now() - last_ >= kEvery; }

bool QuietWatch::is_quiet() {
  if (stop_.stop_requested()) throw Stopped();
  const std::optional<CanaryReading> reading = device_.canary();
  last_ = Clock::now();
  if (!reading) return true;
  ++seen.canaries;
  if (!reading->is_disturbed()) {
    seen.longest_quiet_us = std::max(seen.longest_quiet_us, reading->longest_gap_us);
    seen.largest_quiet_slow_share = std::max(seen.largest_quiet_slow_share, reading->slow_share);
    return true;
  }
  ++seen.disturbed;
  disturbance_ = *reading;
  return false;
}

bool QuietWatch::has_patience(Clock::time_point since) const {
  const auto now = Clock::now();
  if (deadline_ && now >= *deadline_) return false;
  return seen.waited_s + std::chrono::duration<double>(now - since).count() < patience_s_;
}

bool QuietWatch::wait_until_quiet(Clock::time_point since) {
  for (int quiet = 0; quiet < kQuietInARow;) {
    if (!has_patience(since)) return false;
    std::this_thread::sleep_for(kPause);
    quiet = is_quiet() ? quiet + 1 : 0;
  }
  return true;
}

bool QuietWatch::take_again(const std::function<void()>& again) {
  if (seen.gave_up) return false;
  events_.emit(GpuDisturbed{disturbance_});
  const auto begin = Clock::now();
  bool sound = false;
  while (!sound && wait_until_quiet(begin)) {
    again();
    sound = is_quiet();
  }
  const double waited_s = std::chrono::duration<double>(Clock::now() - begin).count();
  seen.waited_s += waited_s;
  seen.gave_up = !sound;
  if (sound) {
    events_.emit(GpuQuiet{waited_s});
  } else {
    events_.emit(GpuContended{seen.waited_s});
  }
  return sound;
}

bool QuietWatch::measure_quietly(const std::function<void()>& measure) {
  if (!is_quiet()) {
    if (take_again(measure)) return true;
    measure();
    return false;
  }
  measure();
  return is_quiet() || take_again(measure);
}

}  // namespace moetune
