#include "serve/served_devices.h"

#include "base/error.h"
#include "jobs/device_choice.h"
#include "kernels/registry.h"
#include "retune/memory.h"
#include "serve/device_fit.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplayPrefix = "replay:";

bool is_replay(const std::string& device) { return device.starts_with(kReplayPrefix); }

std::set<std::string> recorded_hardware(const std::string& device) {
  std::set<std::string> names;
  for (const RecordingHeader& header : recorded_headers(device)) names.insert(header.hardware);
  return names;
}

ServedDevice served_gpu(const DeviceInfo& gpu, const fs::path& cache) {
  return {.name = gpu.id, .uuid = gpu.uuid, .files = night_files(cache, &gpu), .hardware = {gpu.key.name}};
}

ServedDevice served_recording(const std::string& device, const fs::path& cache) {
  require_recording(device);
  return {.name = device,
          .uuid = "",
          .files = night_files(cache, nullptr),
          .hardware = recorded_hardware(device)};
}

}  // namespace

std::vector<ServedDevice> served_devices(const std::vector<std::string>& names, const fs::path& cache) {
  std::vector<ServedDevice> served;
  if (names.empty()) {
    const GpuList list = list_gpus();
    if (list.gpus.empty()) throw BrokenEnvironment(no_gpu_text("serve", list.why_empty));
    for (const DeviceInfo& gpu : list.gpus) served.push_back(served_gpu(gpu, cache));
  }
  for (const std::string& name : names)
    served.push_back(is_replay(name) ? served_recording(name, cache)
                                     : served_gpu(find_gpu(name, "serve", true), cache));
  return served;
}

std::string shortage_for(const JobRequest& request, const std::string& device) {
  const auto* const search = std::get_if<SearchRequest>(&request.what);
  if (search == nullptr || !search->target.workload.kernel || is_replay(device)) return "";
  try {
    const DeviceInfo gpu = find_gpu(device, "serve");
    const Kernel& kernel = find_kernel(*search->target.workload.kernel);
    const MemoryNeed need =
        memory_need(kernel, problem_of(kernel, search->target.workload), gpu.key.memory_bytes);
    MemoryFree free{.host_bytes = free_host_memory()};
    if (gpu.load) free.gpu_bytes = gpu.load->free_bytes;
    return memory_shortage(need, free, gpu.key.memory_bytes);
  } catch (const BrokenEnvironment&) {  // the job says what is broken
    return "";
  }
}

}  // namespace moetune
