// A request's device text turned into a device: a GPU, a recording in a file, or a shipped recording if there
// is no GPU. Free functions for the job's one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/session/job.h"
#include "replay/recording.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {

struct DeviceChoice {
  std::unique_ptr<Device> device;
  std::shared_ptr<const Recording> recording;                // null for a GPU; of `problem`
  std::vector<std::shared_ptr<const Recording>> recordings;  // all that the device serves
  const Kernel* kernel = nullptr;  // null: a recording of a kernel that is not moetune's
  std::string kernel_name;
  Problem problem;
  std::shared_ptr<BuildSource> builder;  // of a GPU: compiles its references; to be set before device->open()
  std::string why_no_gpu;                // why a recording stands in for a GPU; else empty
};

// The name for all recordings in the binary: each workload is replayed from its own.
inline constexpr const char* kShippedRecordings = "replay:shipped";

// "auto" takes the idlest GPU (gpu_choice.h), else a fitting shipped recording if one may stand in. Throws BadField and
// BadInput for what the user named wrongly (kernel, preset, problem, device, file, objective), BrokenEnvironment if
// `auto` finds neither a GPU nor a recording that may stand in.
DeviceChoice choose_device(const std::string& device, const WorkloadSpec& workload,
                           const ReplayChoice& replay = {}, const WorkerWaits& waits = {});

// Those of a job that ends after `time_s` seconds; 0: no limit. It reports what is slow.
WorkerWaits waits_of(const JobContext& context, double time_s = 0);

// The same for a job that goes from problem to problem of a family: a recording is then a folder of recordings, of
// which the device serves those of the named kernel and family and of one GPU, or all such that are shipped.
DeviceChoice choose_family_device(const std::string& device, const WorkloadSpec& workload,
                                  const ReplayChoice& replay = {}, const WorkerWaits& waits = {});

// Why there is no GPU, for work that takes no recording for one: "KERNEL needs a GPU, and ...".
std::string no_gpu_text(std::string_view job, const std::string& why);

// The same for jobs that measure or validate, of a kernel that is named: a recording is BadField. `job` is
// their name, for messages.
DeviceChoice choose_gpu(const std::string& device, const WorkloadSpec& workload, std::string_view job,
                        const WorkerWaits& waits = {});

// The GPU of an earlier choice for another workload: its worker goes on. `opened` is a GPU's, as
// Session::release_device() gives it back. Throws BadField for the workload.
DeviceChoice choose_opened(DeviceChoice opened, const WorkloadSpec& workload);

// Checks a device replay:NAME: throws BadField if there is neither such a file or folder nor such a shipped
// recording. Reads no recording.
void require_recording(const std::string& device);

// As choose_gpu, but opens nothing. BrokenEnvironment of a job that `may_replay` says no_gpu_text().
DeviceInfo find_gpu(const std::string& device, std::string_view job, bool may_replay = false);

// All that are there. Throws BrokenEnvironment only where no process can be started.
struct GpuList {
  std::vector<DeviceInfo> gpus;
  std::string why_empty;  // one sentence; empty where there are some
};
GpuList list_gpus();

}  // namespace moetune
