// One unattended night on one device: a plan, then one workload after the other until time is up, each committed as it
// ends. Nights of equal devices over one cache, a process each, share the work: each takes the most valuable workload
// that no other one holds. host_night.h starts such processes.
//
// A job as in jobs/session/job.h. One night a GPU at a time (night_lock.h). Killed at any moment, the next night goes
// on: what is done is in the ledger, trials are in the cache. Throws BrokenEnvironment if another night goes on,
// BadInput for a list or an option; what one workload throws is that workload's failure. What a listener throws ends
// the night.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/search_job.h"
#include "jobs/session/documents.h"
#include "retune/plan.h"
#include "retune/rework.h"
#include "staleness/ledger.h"

namespace moetune {

// Extra settings of a night that is one member of a host's several.
struct NightMember {
  std::size_t twin = 0;  // how many devices of the same name come before it: of recordings alone
  // Called once the device's canary has run; waits. False: nothing is to be done here.
  std::function<bool()> may_begin;
};

struct NightRequest {
  WorkloadList list;
  SearchRequest search;  // of each; its workload is set for it, and its budget is that of a whole search
  PlanSettings plan;
  ReworkSettings rework;
  double time_s = 0;                   // 0: no limit
  bool is_locked = false;              // the caller holds the locks (DeviceLock)
  bool dry_run = false;                // the plan alone; nothing is locked or changed
  std::function<std::int64_t()> now;   // seconds since 1970; empty: the system's clock
  std::optional<DeviceInfo> gpu = {};  // that search.target.device names, if it was listed already
  std::optional<NightMember> member = {};
};

struct LeftOutDevice {
  std::string device, why;
};

struct NightResult {
  NightPlan plan;  // of all kinds of devices
  std::vector<std::string> devices;
  std::vector<LeftOutDevice> left_out_devices;  // slow, in another night, or dead since
  std::vector<Document> reworked;               // reworked_document() of each, in the order of their ends
  bool interrupted = false, out_of_time = false;
  std::string broken;  // why the night ended before its time: what broke workload after workload

  std::size_t count(ReworkVerdict verdict) const;
  std::size_t failures() const;  // workloads that failed or were left out
  Document ending() const;       // of the event "night_ended"
};

// {"event": "ended", "at": ..., ...}: one a line of a log. "ended" has the fields of reworked_document().
using NightListener = std::function<void(const Document& event)>;

NightResult run_night(const NightRequest& request, const JobContext& context, const NightListener& listener);

// Plans the work for devices of the kind of `keys`, by the request's list, its cache and `known`.
NightPlan plan_night(const NightRequest& request, KeyFinder& keys, const Ledger& known);
std::int64_t now_of(const NightRequest& request);

Document item_document(const PlanItem& item);
Document reworked_document(const PlanItem& item, const ReworkResult& result, const std::string& device, double seconds);
// The document of a workload that another process's night has examined meanwhile.
Document examined_elsewhere(const PlanItem& item);
Document plan_document(const NightPlan& plan);
Document night_document(const NightResult& result);

// The beginning of the names of the files that a GPU's nights keep beside a cache: with ".lock" its lock, with ".json"
// its ledger. A null `gpu` stands for a recording, `twin` for how many of these came before it in one night.
std::filesystem::path night_files(const std::filesystem::path& cache, const DeviceInfo* gpu, std::size_t twin = 0);

}  // namespace moetune
