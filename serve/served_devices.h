// The devices of a service: which there are, whose winners they make, and whether one has room for a search. Free
// functions. Errors: BadField for a name that is none, BrokenEnvironment for the machine.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "serve/job_request.h"

namespace moetune {

struct ServedDevice {
  std::string name;                // "cuda:0", "replay:FILE"
  std::string uuid = {};           // of a GPU
  std::filesystem::path files;     // of its nights, beside the cache
  std::set<std::string> hardware;  // "NVIDIA H200"; several for a folder of recordings

  bool recorded() const { return name.starts_with("replay:"); }
};

// What `names` means; without any every GPU. Recordings are to be named: BrokenEnvironment if there is no GPU then.
std::vector<ServedDevice> served_devices(const std::vector<std::string>& names,
                                         const std::filesystem::path& cache);

// Why `device` has too little memory for a search now, as one sentence; "" if it has enough, or is a recording.
std::string shortage_for(const JobRequest& request, const std::string& device);

}  // namespace moetune
