// When a night was at what, by device: what is left to gain of its wall time. Seconds since the night began.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace moetune {

struct DeviceTimes {
  std::string device;
  double canary_s = 0;  // how long it was opened and compared with its siblings
  double searched_s = 0, searched_from = 0,
         searched_to = 0;                // its workloads: how long, the first and the last
  double checked_s = 0, checked_to = 0;  // its siblings' winners; beside its workloads
};

struct NightTimes {
  double opened_to = 0;    // the devices are known, and locked
  double compared_to = 0;  // canaries
  double planned_to = 0;
  double ended = 0;
  std::vector<DeviceTimes> devices;  // in order of name
};

class NightClock {
 public:
  double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void opened();
  void compared();
  void planned();
  void canary(const std::string& device, double from);
  void worked(const std::string& device, double from);
  void checked(const std::string& device, double from);
  NightTimes times() const;  // `ended` is now

 private:
  using Clock = std::chrono::steady_clock;
  DeviceTimes& of(const std::string& device);

  Clock::time_point begin_ = Clock::now();
  mutable std::mutex mutex_;
  NightTimes times_;
  std::map<std::string, DeviceTimes> devices_;
};

}  // namespace moetune
