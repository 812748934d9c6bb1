// --device turned into a device: a GPU, a recording in a file, or a shipped recording where there is no GPU.
// For the command's one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "replay/recording.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {

struct DeviceChoice {
  std::unique_ptr<Device> device;
  std::shared_ptr<const Recording> recording;  // null for a GPU
  const Kernel* kernel = nullptr;              // null: a recording of a kernel that is not moetune's
  std::string kernel_name;
  Problem problem;
  std::shared_ptr<BuildSource> builder;  // of a GPU: compiles its references; to be set before device->open()
  std::string banner;                    // what was chosen and why, for people
};

// Throws BadInput for what the user named wrongly (kernel, preset, problem, device, file), BrokenEnvironment
// where `auto` finds neither a GPU nor a fitting recording.
DeviceChoice choose_device(const std::string& device, const WorkloadOptions& workload);

// The same for commands that measure or validate, of a kernel that is named: a recording is BadInput.
DeviceChoice choose_gpu(const std::string& device, const WorkloadOptions& workload, std::string_view command);

// The problem that the options describe. Throws BadInput.
Problem problem_of(const Kernel& kernel, const WorkloadOptions& workload);

}  // namespace moetune
