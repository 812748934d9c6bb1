// The devices of a service: which there are, whose winners they make, which of them can run a job, and whether one has
// room for a search. Free functions; thread-safe. Errors: BadField for a name that is none, BrokenEnvironment for the
// machine.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "serve/run/job_request.h"

namespace moetune {

struct ServedDevice {
  // The kernel, problem and family of a recording; problem and family are "" if moetune does not know them.
  struct Recorded {
    std::string kernel, problem, family;
  };

  std::string name;                       // "cuda:0", "replay:FILE"
  std::string uuid = {};                  // of a GPU
  std::filesystem::path files;            // of its nights, beside the cache
  std::set<std::string> hardware;         // "NVIDIA H200"; several for a folder of recordings
  std::vector<Recorded> recordings = {};  // what cannot be read is left out

  bool recorded() const { return name.starts_with("replay:"); }
};

// The devices that `names` mean; without any, every GPU. Recordings must be named: BrokenEnvironment if there is no
// GPU then.
std::vector<ServedDevice> served_devices(const std::vector<std::string>& names, const std::filesystem::path& cache);

// Whether the device can run the job, as far as it is known without running it: a GPU any, a recording what it is of.
bool can_run(const JobRequest& request, const ServedDevice& device);
// The same for one of `all` by its name, or true if none of them can: then the job is to end with the reason.
bool is_to_run(const JobRequest& request, const std::string& device, const std::vector<ServedDevice>& all);

// Why `device` has too little memory for a search now, as one sentence; "" if it has enough, or is a recording.
std::string shortage_for(const JobRequest& request, const std::string& device);

}  // namespace moetune
