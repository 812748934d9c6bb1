#include "serve/served_devices.h"

#include <algorithm>

#include "base/error.h"
#include "base/regular_file.h"
#include "jobs/device_choice.h"
#include "kernels/registry.h"
#include "replay/recording.h"
#include "replay/shipped.h"
#include "retune/memory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplayPrefix = "replay:";
constexpr std::size_t kMostRecording = std::size_t{1} << 30;

bool is_replay(const std::string& device) { return device.starts_with(kReplayPrefix); }

// Nothing for a file that is no recording: the jobs on it say what is wrong.
void add_recorded(const fs::path& file, std::set<std::string>& names) {
  try {
    names.insert(parse_recording_header(read_regular_file(file, kMostRecording), file.string()).hardware);
    return;
  } catch (const BadInput&) {  // one of Kernel Tuner's has no header
  }
  try {
    names.insert(read_recording(file).hardware.name);
  } catch (const BadInput&) {
  }
}

// Of all shipped recordings, or of one.
std::set<std::string> shipped_hardware(const std::string& name) {
  std::set<std::string> names;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.damage.empty() && (name.empty() || shipped.name() == name))
      names.insert(shipped.header.hardware);
  }
  return names;
}

std::set<std::string> recorded_hardware(const std::string& device) {
  if (!is_replay(device)) return shipped_hardware("");
  const std::string name = device.substr(kReplayPrefix.size());
  std::error_code unreachable;
  std::set<std::string> names;
  if (fs::is_directory(name, unreachable)) {
    for (const auto& entry : fs::directory_iterator(name, unreachable)) {
      if (entry.path().filename().string().find(".json") != std::string::npos)
        add_recorded(entry.path(), names);
    }
    return names;
  }
  if (!fs::exists(name, unreachable)) return shipped_hardware(name);
  add_recorded(name, names);
  return names;
}

ServedDevice served_gpu(const DeviceInfo& gpu, const fs::path& cache) {
  return {.name = gpu.id, .uuid = gpu.uuid, .files = night_files(cache, &gpu), .hardware = {gpu.key.name}};
}

ServedDevice served_recording(const std::string& device, const fs::path& cache) {
  if (is_replay(device)) require_recording(device);
  return {.name = device,
          .uuid = "",
          .files = night_files(cache, nullptr),
          .hardware = recorded_hardware(device)};
}

}  // namespace

std::vector<ServedDevice> served_devices(const std::vector<std::string>& names, const fs::path& cache) {
  std::vector<ServedDevice> served;
  const bool all_replay = !names.empty() && std::all_of(names.begin(), names.end(), is_replay);
  const std::vector<DeviceInfo> gpus = all_replay ? std::vector<DeviceInfo>() : list_gpus().gpus;
  if (names.empty()) {
    for (const DeviceInfo& gpu : gpus) served.push_back(served_gpu(gpu, cache));
    if (gpus.empty()) served.push_back(served_recording("auto", cache));
    return served;
  }
  for (const std::string& name : names) {
    if (is_replay(name) || (name == "auto" && gpus.empty())) {
      served.push_back(served_recording(name, cache));
    } else {
      served.push_back(served_gpu(find_gpu(name, "serve"), cache));
    }
  }
  return served;
}

std::string shortage_for(const JobRequest& request, const std::string& device) {
  const auto* const search = std::get_if<SearchRequest>(&request.what);
  if (search == nullptr || !search->target.workload.kernel || is_replay(device) || device == "auto")
    return "";
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
