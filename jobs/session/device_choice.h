// Turns a request into what a job works on, and where. First *what*, a kernel and a problem (kernel_problem in job.h);
// then *where*: a GPU, a recording in a file, or a shipped recording if there is no GPU. Free functions for the job's
// one thread.
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
  KernelProblem what;
  std::unique_ptr<Device> device;
  std::shared_ptr<const Recording> recording;                // null for a GPU; of `what`
  std::vector<std::shared_ptr<const Recording>> recordings;  // all that the device serves
  std::shared_ptr<BuildSource> builder;  // of a GPU: compiles its references; to be set before device->open()
  std::string why_no_gpu;                // why a recording stands in for a GPU; else empty
};

// The name for all recordings in the binary: each workload is replayed from its own.
inline constexpr const char* kShippedRecordings = "replay:shipped";

// The needs of a job.
struct DeviceNeeds {
  ReplayChoice replay = {};
  // The job goes from problem to problem of a family. A recorded device then serves all recordings of that family on
  // one GPU, and begins at the first of them.
  bool family = false;
  std::string_view gpu_job = {};  // the name of a job that runs kernels, for messages: a recording is BadField
  WorkerWaits waits = {};
};

// "auto" takes the idlest GPU (gpu_choice.h), else a fitting shipped recording if one may stand in. Throws BadField and
// BadInput for what the user named wrongly (kernel, preset, problem, device, file, objective), BrokenEnvironment if
// `auto` finds neither a GPU nor a recording that may stand in.
DeviceChoice choose_device(const std::string& device, const WorkloadSpec& workload, const DeviceNeeds& needs = {});

// Those of a job that ends after `time_s` seconds; 0: no limit. It reports what is slow.
WorkerWaits waits_of(const JobContext& context, double time_s = 0);

// Why there is no GPU: "JOB needs a GPU, and ..."; names the recordings that a job could replay, if it `may_replay`.
std::string no_gpu_text(std::string_view job, const std::string& why, bool may_replay);

// Checks a device replay:NAME: throws BadField if there is neither such a file or folder nor such a shipped
// recording. Reads no recording.
void require_recording(const std::string& device);

// Finds a GPU, but opens nothing. Throws BadField for the text, BrokenEnvironment with no_gpu_text().
DeviceInfo find_gpu(const std::string& device, std::string_view job, bool may_replay = false);

// All that are there. Throws BrokenEnvironment only where no process can be started.
CudaDeviceList list_gpus();

}  // namespace moetune
