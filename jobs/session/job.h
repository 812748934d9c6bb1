// The part that the requests of all jobs share, and the connection of a running job to its caller.
//
// A job is one function: a request in, a result out. It runs on its caller's thread and owns what it opens
// (cache, device, compiler), so that several may run at once on several threads, each on its own device.
// Errors: BadField or BadInput for the request, BrokenEnvironment for the machine; what a candidate does is
// never one.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "jobs/session/stores.h"
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

// The subject of a job.
struct KernelProblem {
  const Kernel* kernel = nullptr;  // null: a recording of a kernel that is not moetune's
  Problem problem;                 // names the kernel too
};

// The problem that a spec describes for `kernel`. Throws BadField.
Problem problem_of(const Kernel& kernel, const WorkloadSpec& spec);
// The same with the kernel that it names. Throws BadField if it names none.
KernelProblem kernel_problem(const WorkloadSpec& spec);

// A job's use of recordings. The defaults are for unattended work: it takes no recording for a GPU, and stores times.
struct ReplayChoice {
  bool may_stand_in = false;  // device "auto" without a GPU is a shipped recording
  // The objective in another tuner's results: "NAME", "NAME:min" or "NAME:max", "" for the file's own
  // (replay/objective_choice.h).
  std::string objective = "time";
};

struct JobTarget {
  WorkloadSpec workload;
  // "auto", "cuda:N", a GPU's UUID or PCI id, or "replay:FILE" (device_choice.h).
  std::string device = "auto";
  CacheChoice cache;
  ReplayChoice replay = {};
};

struct JobContext {
  Events events;
  std::stop_token stop;
};

}  // namespace moetune
