// The device of a night: its lock, its ledger, and what it does to each workload.
//
// For one thread, the one that makes it: a worker process dies with the thread that started it. Errors as in night.h.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "cache/file/search_locks.h"
#include "jobs/session/device_choice.h"
#include "jobs/stored/key_finder.h"
#include "retune/memory.h"
#include "retune/night.h"
#include "retune/night_lock.h"
#include "staleness/ledger.h"

namespace moetune {

// The state that a night and its device share.
struct NightShared {
  using Clock = std::chrono::steady_clock;

  const NightRequest& request;
  JobContext context;
  std::function<void(const char* name, const Document& more)> emit;
  Clock::time_point begin = Clock::now();

  double seconds_left() const;
  ReworkSettings rework_settings() const;  // the request's, with the night's deadline
  bool out_of_time() const { return request.time_s > 0 && seconds_left() <= 0; }
};

// As nights name it: "cuda:1", "replay:FILE (2)".
std::string night_device_name(const std::string& device, const DeviceInfo* gpu, std::size_t twin);

class DeviceNight {
 public:
  explicit DeviceNight(NightShared& shared);  // of the request's device

  const std::string& name() const { return name_; }
  KeyFinder& keys() { return keys_; }

  void take_lock();    // throws BrokenEnvironment if another night has the device
  void read_ledger();  // reports damage
  // The ledgers of all devices at the time of read_ledger().
  const Ledger& known() const { return known_; }

  // Whether no other night holds the workload; if so they leave it alone until release().
  bool hold(const PlanItem& item);
  void release(const PlanItem& item);
  // Whether another night has ended with it since read_ledger(). Ask while it is held.
  bool was_examined(const PlanItem& item) const;

  ReworkResult rework(const PlanItem& item);
  // Writes down that nothing can be done for it here, so that siblings do not try too.
  void note_failure(const PlanItem& item);

  // The speed of the canary; nullopt for a recording, and if it was disturbed. Throws BrokenEnvironment if the
  // device does not work (any more).
  std::optional<double> canary_rate();
  // The same, and the device stays open for the first rework().
  std::optional<double> open_and_compare();
  // Ends what open_and_compare() has left open: an idle device holds no memory of the GPU.
  void close_idle() { opened_.reset(); }

 private:
  SearchRequest search_of(const PlanItem& item);
  std::string shortage(const TuningPoint& point);
  ReworkResult rework_now(const PlanItem& item);

  NightShared& shared_;
  KeyFinder keys_;
  std::string name_;
  std::filesystem::path stem_;
  std::optional<DeviceLock> lock_;
  std::optional<Ledger> ledger_;
  Ledger known_;
  SearchLocks held_;
  std::optional<DeviceChoice> opened_;
};

}  // namespace moetune
