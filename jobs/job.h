// What the requests of all jobs share, and what connects a running job to its caller.
//
// A job is one function: a request in, a result out. It runs on its caller's thread and owns what it opens
// (cache, device, compiler), so that several may run at once on several threads, each on its own device.
// Errors: BadField or BadInput for the request, BrokenEnvironment for the machine; what a candidate does is
// never one.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "jobs/stores.h"
#include "kernels/kernel.h"
#include "tuner/events.h"

namespace moetune {

// A workload as people write it.
struct WorkloadSpec {
  std::optional<std::string> kernel;  // may be missing if the device is a recording
  std::string problem;                // "batch=64,context=8192"; may be empty
  std::string preset;                 // may be empty

  bool names_problem() const { return !problem.empty() || !preset.empty(); }
};

// The problem that a spec describes for `kernel`. Throws BadField.
Problem problem_of(const Kernel& kernel, const WorkloadSpec& spec);

struct JobTarget {
  WorkloadSpec workload;
  // "auto", "cuda:N", a GPU's UUID or PCI id, or "replay:FILE" (device_choice.h).
  std::string device = "auto";
  CacheChoice cache;
};

struct JobContext {
  Events events;
  std::stop_token stop;
};

}  // namespace moetune
