// Under which key a job on a device would store its result, for many workloads without a job for each.
//
// A GPU is looked for once, and from then on the same one is meant: searches get its name from device(). No recording
// stands in for it. For one thread; once gpu() or device() has returned, any thread may call those
// two. Errors as choose_device.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "keys/key.h"
#include "launch/device_info.h"

namespace moetune {

class KeyFinder {
 public:
  // `no_compile` as in SearchRequest. `job` is for messages.
  KeyFinder(std::string device, bool no_compile, std::string job);

  // Takes a GPU that was listed already, and does not look for it again.
  KeyFinder(DeviceInfo gpu, bool no_compile, std::string job);

  // `problem` is canonical. Throws BadInput if no recording fits.
  WorkloadKey find(const std::string& kernel, const std::string& problem);

  // The same for all problems of its family on one device: of recordings, those of a folder together.
  WorkloadKey find_family(const std::string& kernel, const std::string& problem);

  const std::string& device();  // for requests: a GPU's ordinal, or as it was given
  const DeviceInfo* gpu();      // null for recordings

 private:
  void look();
  WorkloadKey of_recording(const std::string& kernel, const std::string& problem, bool family) const;

  std::string device_;
  bool no_compile_;
  std::string job_;
  bool looked_ = false;
  std::optional<DeviceInfo> gpu_;
  std::string toolchain_;
  std::map<std::string, std::string> sources_;  // by kernel
};

}  // namespace moetune
