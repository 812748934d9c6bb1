// Prepares a model for a server: lists the families that the server opens, asks the runtime which of them it can serve
// from the files that are there, and tunes the rest, heaviest first, until time is up. Resumable, as tune_list() is.
//
// A job as in jobs/session/job.h: errors, threads and stop requests as there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/stored/served_families.h"
#include "kernels/server_workloads.h"
#include "workloads/tune_list.h"

namespace moetune {

struct PrepareRequest {
  std::filesystem::path model;  // config.json, or a model's folder
  ServerShape shape;
  std::vector<std::filesystem::path> packs;  // behind the cache of `tune`
  TuneListRequest tune;                      // its list and device are set here
  bool dry_run = false;                      // tunes nothing, and needs no GPU
};

struct PreparedFamily {
  TuningRange range;   // its weight: microseconds a step
  std::string family;  // of its problem
  std::optional<ServedFamily> before,
      after;                        // nullopt without a GPU, or if stopped; `after` also without tuning
  std::optional<TunedState> tuned;  // nullopt: nothing was to be done
  std::string why;                  // of left_out

  // As it is now.
  const std::optional<ServedFamily>& now() const { return after ? after : before; }
};

struct PrepareResult {
  std::string model;                  // its type
  std::vector<std::string> notes;     // what is not understood, or is the server's own; a sentence each
  std::vector<std::string> warnings;  // files and records that a server leaves out
  std::optional<DeviceInfo> gpu;
  std::string why_no_gpu;
  std::vector<PreparedFamily> families;  // heaviest first
  bool interrupted = false, out_of_time = false;

  bool is_known() const;         // what serves them
  std::size_t unserved() const;  // families of which it is known that nothing serves them
};

// `listed` is called before anything is tuned; the others after each family, as of tune_list().
PrepareResult prepare(const PrepareRequest& request, const JobContext& context,
                      const std::function<void(const PrepareResult&)>& listed, const PointListener& ended,
                      const RangeListener& range_ended);

Document prepare_document(const PrepareResult& result);

}  // namespace moetune
