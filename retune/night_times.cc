#include "retune/night_times.h"

namespace moetune {

void NightClock::opened() {
  const std::lock_guard lock(mutex_);
  times_.opened_to = now();
}

void NightClock::compared() {
  const std::lock_guard lock(mutex_);
  times_.compared_to = now();
}

void NightClock::planned() {
  const std::lock_guard lock(mutex_);
  times_.planned_to = now();
}

DeviceTimes& NightClock::of(const std::string& device) {
  DeviceTimes& times = devices_[device];
  times.device = device;
  return times;
}

void NightClock::canary(const std::string& device, double from) {
  const std::lock_guard lock(mutex_);
  of(device).canary_s += now() - from;
}

void NightClock::worked(const std::string& device, double from) {
  const std::lock_guard lock(mutex_);
  DeviceTimes& times = of(device);
  if (times.searched_to == 0) times.searched_from = from;
  times.searched_to = now();
  times.searched_s += times.searched_to - from;
}

void NightClock::checked(const std::string& device, double from) {
  const std::lock_guard lock(mutex_);
  DeviceTimes& times = of(device);
  times.checked_to = now();
  times.checked_s += times.checked_to - from;
}

NightTimes NightClock::times() const {
  const std::lock_guard lock(mutex_);
  NightTimes times = times_;
  times.ended = now();
  for (const auto& [name, device] : devices_) times.devices.push_back(device);
  return times;
}

}  // namespace moetune
