// One unattended night: a plan, then one workload after the other until time is up, each committed as it ends. Several
// devices work at once, a thread each: equal ones share workloads and winners, each other kind tunes all for itself.
//
// A job as in jobs/job.h. One night a GPU at a time (night_lock.h). Killed at any moment, the next night goes
// on: what is done is in the ledger, trials are in the cache. Throws BrokenEnvironment if another night goes on,
// BadInput for a list or an option; what one workload throws is that workload's failure. What a listener throws
// between workloads ends the night, once the other devices have ended theirs.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/documents.h"
#include "jobs/search_job.h"
#include "retune/night_times.h"
#include "retune/plan.h"
#include "retune/rework.h"

namespace moetune {

struct NightRequest {
  // search.target.device may name several devices (host_devices.h).
  WorkloadList list;
  SearchRequest search;  // of each; its workload is set for it, and its budget is that of a whole search
  PlanSettings plan;
  ReworkSettings rework;
  double time_s = 0;                  // 0: no limit
  bool is_locked = false;             // the caller holds the locks (DeviceLock)
  bool dry_run = false;               // the plan alone; nothing is locked or changed
  std::function<std::int64_t()> now;  // seconds since 1970; empty: the system's clock
};

struct Reworked {
  PlanItem item;
  ReworkResult result;
  double seconds = 0;
  std::string device;
};

// A winner that one device has found, as another of the kind sees it.
struct Confirmed {
  TuningPoint point;
  std::string device;
  bool held = false;       // the duel
  bool withdrawn = false;  // it was slower there than what it replaced, which is served again
  std::string reason;
  Contest contest;
};

struct LeftOutDevice {
  std::string device, why;
};

struct NightResult {
  NightPlan plan;  // of all kinds of devices
  std::vector<std::string> devices;
  std::vector<LeftOutDevice> left_out_devices;  // slow, in another night, or dead since
  std::vector<Confirmed> confirmed;
  std::vector<Reworked> reworked;
  bool interrupted = false, out_of_time = false;
  NightTimes times;
  std::string broken;  // why the night ended before its time: what broke workload after workload

  std::size_t count(ReworkVerdict verdict) const;
  std::size_t failures() const;  // workloads that failed or were left out
};

// {"event": "ended", "at": ..., ...}: one a line of a log.
using NightListener = std::function<void(const Document& event)>;
using ReworkListener = std::function<void(const Reworked&)>;

NightResult run_night(const NightRequest& request, const JobContext& context, const NightListener& listener,
                      const ReworkListener& ended);

Document item_document(const PlanItem& item);
Document reworked_document(const Reworked& reworked);
Document confirmed_document(const Confirmed& confirmed);

// The beginning of the names of the files that a GPU's nights keep beside a cache: with ".lock" its lock, with ".json"
// its ledger. A null `gpu` stands for a recording, `twin` for how many of these came before it in one night.
std::filesystem::path night_files(const std::filesystem::path& cache, const DeviceInfo* gpu,
                                  std::size_t twin = 0);

Document plan_document(const NightPlan& plan);
Document night_document(const NightResult& result);

}  // namespace moetune
