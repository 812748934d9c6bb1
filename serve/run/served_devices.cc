#include "serve/run/served_devices.h"

#include <algorithm>

#include "base/error.h"
#include "base/regular_file.h"
#include "jobs/session/device_choice.h"
#include "kernels/registry.h"
#include "replay/shipped.h"
#include "retune/memory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplayPrefix = "replay:";
constexpr std::size_t kMostRecording = std::size_t{1} << 30;

bool is_replay(const std::string& device) { return device.starts_with(kReplayPrefix); }

void add_header(const fs::path& file, std::vector<RecordingHeader>& headers) {
  try {
    headers.push_back(parse_recording_header(read_regular_file(file, kMostRecording), file.string()));
    return;
  } catch (const BadInput&) {  // one of Kernel Tuner's has no header
  }
  try {
    const Recording recording = read_recording(file);
    headers.push_back({recording.hardware.name, recording.kernel, recording.problem, recording.recorded_at});
  } catch (const BadInput&) {
  }
}

// Reads the headers of "replay:NAME": a file, a folder, a shipped recording, or all shipped ones (kShippedRecordings).
std::vector<RecordingHeader> recorded_headers(const std::string& device) {
  const bool is_named = device != kShippedRecordings;
  const std::string name = device.substr(kReplayPrefix.size());
  std::vector<RecordingHeader> headers;
  std::error_code unreachable;
  if (is_named && fs::is_directory(name, unreachable)) {
    for (const auto& entry : fs::directory_iterator(name, unreachable)) {
      if (entry.path().filename().string().find(".json") != std::string::npos) add_header(entry.path(), headers);
    }
  } else if (is_named && fs::exists(name, unreachable)) {
    add_header(name, headers);
  } else {
    for (const ShippedRecording& shipped : list_shipped_recordings()) {
      if (shipped.damage.empty() && (!is_named || shipped.name() == name)) headers.push_back(shipped.header);
    }
  }
  return headers;
}

ServedDevice served_gpu(const DeviceInfo& gpu, const fs::path& cache) {
  return {.name = gpu.id, .uuid = gpu.uuid, .files = night_files(cache, &gpu), .hardware = {gpu.key.name}};
}

ServedDevice served_recording(const std::string& name, const fs::path& cache) {
  require_recording(name);
  ServedDevice device{.name = name, .files = night_files(cache, nullptr), .hardware = {}};
  for (const RecordingHeader& header : recorded_headers(name)) {
    device.hardware.insert(header.hardware);
    ServedDevice::Recorded& one = device.recordings.emplace_back();
    one.kernel = header.kernel;
    try {
      if (const Kernel* const kernel = known_kernel(header.kernel)) {
        const Problem problem = kernel->parse(header.problem);
        one.problem = problem.text();
        one.family = kernel->specialization(problem).text();
      }
    } catch (const BadInput&) {  // of a problem that this version does not know
    }
  }
  return device;
}

// The kernel, problem and family that a job needs from a recording; "" is any.
ServedDevice::Recorded wanted(const WorkloadSpec& spec, bool is_range) {
  if (!spec.kernel) return {};
  ServedDevice::Recorded wish{.kernel = *spec.kernel, .problem = {}, .family = {}};
  const Kernel* const kernel = known_kernel(wish.kernel);
  if (kernel == nullptr || (!spec.names_problem() && !is_range)) return wish;
  const Problem problem = problem_of(*kernel, spec);
  (is_range ? wish.family : wish.problem) = is_range ? kernel->specialization(problem).text() : problem.text();
  return wish;
}

// nullopt for a job that runs kernels.
std::optional<std::vector<ServedDevice::Recorded>> all_wanted(const JobRequest& request) {
  if (const auto* search = std::get_if<SearchRequest>(&request.what))
    return std::vector{wanted(search->target.workload, false)};
  if (const auto* range = std::get_if<RangeRequest>(&request.what))
    return std::vector{wanted(range->target.workload, true)};
  const auto* const list = std::get_if<TuneListRequest>(&request.what);
  const auto* const night = std::get_if<NightRequest>(&request.what);
  if (list == nullptr && night == nullptr) return std::nullopt;
  const TuningWork work = work_of(list != nullptr ? list->list : night->list);
  std::vector<ServedDevice::Recorded> all;
  for (const TuningPoint& point : work.points)
    all.push_back(wanted({.kernel = point.kernel, .problem = point.problem, .preset = ""}, false));
  for (const TuningRange& range : work.ranges)
    all.push_back(wanted({.kernel = range.kernel, .problem = range.problem, .preset = ""}, true));
  return all;
}

}  // namespace

std::vector<ServedDevice> served_devices(const std::vector<std::string>& names, const fs::path& cache) {
  std::vector<ServedDevice> served;
  if (names.empty()) {
    const CudaDeviceList list = list_gpus();
    if (list.devices.empty()) throw BrokenEnvironment(no_gpu_text("serve", list.why_empty, true));
    for (const DeviceInfo& gpu : list.devices) served.push_back(served_gpu(gpu, cache));
  }
  for (const std::string& name : names)
    served.push_back(is_replay(name) ? served_recording(name, cache)
                                     : served_gpu(find_gpu(name, "serve", true), cache));
  return served;
}

bool can_run(const JobRequest& request, const ServedDevice& device) try {
  const auto wishes = all_wanted(request);
  if (!device.recorded())  // a GPU has no kernel of its own, as a recording does
    return !wishes || std::ranges::none_of(*wishes, [](const auto& wish) { return wish.kernel.empty(); });
  return wishes && std::ranges::all_of(*wishes, [&](const auto& wish) {
           return std::ranges::any_of(device.recordings, [&](const auto& one) {
             return (wish.kernel.empty() || wish.kernel == one.kernel) &&
                    (wish.problem.empty() || wish.problem == one.problem) &&
                    (wish.family.empty() || wish.family == one.family);
           });
         });
} catch (const BadInput&) {  // the job says what is wrong with it
  return true;
}

bool is_to_run(const JobRequest& request, const std::string& device, const std::vector<ServedDevice>& all) {
  bool any = false;
  for (const ServedDevice& one : all) {
    const bool can = can_run(request, one);
    if (can && one.name == device) return true;
    any = any || can;
  }
  return !any;
}

std::string shortage_for(const JobRequest& request, const std::string& device) {
  const auto* const search = std::get_if<SearchRequest>(&request.what);
  if (search == nullptr || !search->target.workload.kernel || is_replay(device)) return "";
  try {
    const DeviceInfo gpu = find_gpu(device, "serve");
    const Kernel& kernel = find_kernel(*search->target.workload.kernel);
    const MemoryNeed need = memory_need(kernel, problem_of(kernel, search->target.workload), gpu.key.memory_bytes);
    MemoryFree free{.host_bytes = free_host_memory()};
    if (gpu.load) free.gpu_bytes = gpu.load->free_bytes;
    return memory_shortage(need, free, gpu.key.memory_bytes);
  } catch (const BrokenEnvironment&) {  // the job says what is broken
    return "";
  }
}

}  // namespace moetune
