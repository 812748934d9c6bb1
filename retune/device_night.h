// One device of a night: its lock, its ledger, and its turns. Others of its kind may work beside it on threads of their
// own.
//
// Belongs to one thread at a time, but for confirm(), which another one may call beside rework(): both take turns on
// the device, and wait until its memory has room for both. Errors as in night.h.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "jobs/key_finder.h"
#include "retune/device_share.h"
#include "retune/host_devices.h"
#include "retune/lane.h"
#include "retune/memory.h"
#include "retune/night.h"
#include "retune/night_lock.h"
#include "retune/night_times.h"
#include "retune/session_subject.h"

namespace moetune {

// What all devices of a night share. `emit` is thread-safe.
struct NightShared {
  using Clock = std::chrono::steady_clock;

  const NightRequest& request;
  JobContext context;
  std::function<void(const char* name, const Document& more)> emit;
  std::uint64_t threads = 0;  // of each device's compiler
  Clock::time_point begin = Clock::now();
  NightClock times = {};
  std::mutex withdrawing;  // one at a time goes back to an earlier winner

  std::int64_t now() const;
  double seconds_left() const;
  ReworkSettings rework_settings() const;  // the request's, with the night's deadline
  bool out_of_time() const { return request.time_s > 0 && seconds_left() <= 0; }
};

class DeviceNight {
 public:
  // `position` among the night's devices; `twin`: how many of the same name came before it (recordings alone).
  DeviceNight(NightShared& shared, NightDevice device, std::size_t position, std::size_t twin);

  const std::string& name() const { return name_; }
  KeyFinder& keys() { return keys_; }
  std::string kind();  // equal for devices that share winners

  void take_lock();    // throws BrokenEnvironment if another night has the device
  void read_ledger();  // says if it is damaged
  const Ledger& ledger() const { return *ledger_; }

  ReworkResult rework(const PlanItem& item);
  // Duels the winner that a sibling has stored with what it replaced, here; goes back if it is slower.
  Confirmed confirm(const PlanItem& item, const ReworkResult& found);
  // Starts the worker of the next confirm(), so that it need not wait for its driver. Only confirm()'s thread may call
  // it. `some` is any workload of the plan: confirm() moves the worker to its own (choose_opened). The worker has no
  // context and no memory of the GPU until then. After a failure it does nothing more: confirm() finds what is broken.
  void prepare_confirm(const TuningPoint& some);
  // Ends the worker that no confirm() has taken. For the same thread.
  void end_confirms() { spare_.reset(); }
  // How fast it is by its canary; nullopt for a recording, and if it was disturbed. Throws BrokenEnvironment if the
  // device does not work (any more).
  std::optional<double> canary_rate();
  // The same before all work: the device stays open for the first rework() or confirm(), whichever comes.
  std::optional<double> open_and_compare();
  // Ends what open_and_compare() has left open, if nothing has taken it: an idle device holds no memory of the GPU.
  void close_idle() { take_opened(); }
  // For all that leaves the device open, and for rework(): a thread that lasts.
  Lane& lane() { return lane_; }

 private:
  SearchRequest search_of(const PlanItem& item);
  MemoryNeed need_of(const TuningPoint& point);
  std::string shortage(const TuningPoint& point);
  ReworkResult rework_with_room(const PlanItem& item);
  ReworkResult rework_now(const PlanItem& item);
  Confirmed confirm_with_room(const PlanItem& item, const ReworkResult& found);
  Events events() const;
  void write_down(const WorkloadKey& key, const LedgerEntry& entry);  // in the ledger; of both threads

  std::optional<DeviceChoice> take_opened();

  NightShared& shared_;
  std::string name_;
  std::size_t position_;
  KeyFinder keys_;
  std::filesystem::path stem_;
  std::optional<DeviceLock> lock_;
  std::optional<Ledger> ledger_;
  std::mutex writing_;  // the ledger
  std::mutex turn_;
  MemoryRoom room_;
  std::mutex opening_;
  std::optional<DeviceChoice> opened_;  // by open_and_compare()
  std::optional<DeviceChoice> spare_;   // by prepare_confirm()
  bool has_no_spare_ = false;           // it failed
  Lane lane_;                           // last: its work uses all else
};

}  // namespace moetune
