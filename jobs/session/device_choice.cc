#include "jobs/session/device_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/environment.h"
#include "base/error.h"
#include "base/suggest.h"
#include "jobs/session/gpu_choice.h"
#include "kernels/registry.h"
#include "launch/driver.h"
#include "replay/objective_choice.h"
#include "replay/replay_device.h"
#include "replay/shipped.h"

namespace moetune {
namespace {

constexpr std::string_view kReplay = "replay:";

// "MOETUNE_REPLAY_PACE_MS=50": a trial of a recording takes as long, for simulations of what a GPU would take.
std::chrono::milliseconds replay_pace() {
  const char* const pace = environment_variable("MOETUNE_REPLAY_PACE_MS");
  return std::chrono::milliseconds(pace != nullptr ? std::clamp(std::atoi(pace), 0, 60'000) : 0);
}

using RecordingPtr = std::shared_ptr<const Recording>;

// The source of the recordings, for messages about one that is missing.
std::string recordings_home() {
  const char* const folder = environment_variable("MOETUNE_DATA_DIR");
  return folder != nullptr ? " in MOETUNE_DATA_DIR (" + std::string(folder) + ")" : "";
}

RecordingPtr read_shipped(const ShippedRecording& shipped, const std::string& objective = "time") {
  return std::make_shared<const Recording>(shipped.read(objective));
}

// The shipped recording of this name; nullopt if it is a file's. Throws BadField if it is neither's.
std::optional<ShippedRecording> find_named(const std::string& name) {
  if (name.empty()) throw BadField("device", "'replay:' names no recording; it would be replay:FILE");
  std::error_code unreachable;
  const std::filesystem::file_status status = std::filesystem::status(name, unreachable);
  if (std::filesystem::exists(status)) return std::nullopt;
  if (status.type() == std::filesystem::file_type::none) {
    throw BadField("device", "cannot look at the recording " + name + ": " + unreachable.message());
  }
  std::vector<std::string> names;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    names.push_back(shipped.name());
    if (names.back() == name) return shipped;
  }
  throw BadField("device",
                 names.empty()
                     ? "there is no file " + name + ", and no recording" + recordings_home()
                     : "no such file; " + unknown_name("recording", name, names) + recordings_home());
}

// Whether `name` means all shipped recordings: a file of that name comes first, as of any other.
bool means_all_shipped(const std::string& name) {
  std::error_code unreachable;
  return kReplay.size() + name.size() == std::string_view(kShippedRecordings).size() &&
         std::string_view(kShippedRecordings).ends_with(name) && !std::filesystem::exists(name, unreachable);
}

RecordingPtr read_named(const std::string& name, const std::string& objective) {
  const std::optional<ShippedRecording> shipped = find_named(name);
  return shipped ? read_shipped(*shipped, objective)
                 : std::make_shared<const Recording>(read_recording(name, objective));
}

// The recorded problem in today's schema: its text may predate a dimension.
Problem recorded_problem(const std::string& text, const Kernel& kernel) {
  return parse_problem(kernel.name(), kernel.schema(), nullptr, text);
}

// nullopt if moetune does not know it: a folder of recordings may hold anything.
std::optional<Problem> known_problem(const std::string& text, const Kernel& kernel) {
  try {
    return recorded_problem(text, kernel);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

// Another tuner's results are rows alone, even if the kernel has the name of one of moetune's.
DeviceChoice replay(RecordingPtr recording, const std::string& id) {
  DeviceChoice choice{.recording = recording,
                      .kernel = recording->is_moetunes() ? known_kernel(recording->kernel) : nullptr,
                      .kernel_name = recording->kernel};
  choice.problem = {recording->kernel, {}};
  try {
    if (choice.kernel != nullptr) choice.problem = recorded_problem(recording->problem, *choice.kernel);
  } catch (const BadInput& error) {
    throw BadField("device", id + " is of a problem that moetune does not know: " + error.what());
  }
  choice.recordings = {recording};
  choice.device = std::make_unique<ReplayDevice>(std::move(recording), id, replay_pace());
  return choice;
}

std::vector<RecordingPtr> read_all(const std::string& name, const Kernel& kernel);
DeviceChoice choose_shipped(const Kernel& kernel, const WorkloadSpec& workload, const std::string& why);

// Chooses the recording of the requested problem from a folder.
DeviceChoice choose_in_folder(const std::string& folder, const WorkloadSpec& workload) {
  if (!workload.kernel) throw BadField("kernel", "it is needed where the device is a folder of recordings");
  const Kernel& kernel = find_kernel(*workload.kernel);
  const Problem wanted = problem_of(kernel, workload);
  for (RecordingPtr& recording : read_all(folder, kernel)) {
    if (recording->is_moetunes() && recording->kernel == kernel.name() &&
        known_problem(recording->problem, kernel) == wanted)
      return replay(std::move(recording), std::string(kReplay) + folder);
  }
  throw BadInput("no recording in " + folder + " is of " + kernel.name() + " " + wanted.text());
}

void require_time(const std::string& objective, const std::string& what) {
  if (!objective.empty() && objective != "time" && objective != kAnyObjective)
    throw BadField("objective",
                   what + " is searched for time alone; other figures are those of another tuner's results");
}

DeviceChoice choose_recording(const std::string& name, const WorkloadSpec& workload,
                              const std::string& objective) {
  std::error_code unreachable;
  if (std::filesystem::is_directory(name, unreachable) || means_all_shipped(name))
    require_time(objective, std::string(kReplay) + name);
  if (std::filesystem::is_directory(name, unreachable)) return choose_in_folder(name, workload);
  if (means_all_shipped(name)) {
    if (!workload.kernel) throw BadField("kernel", "it is needed where the device is all shipped recordings");
    return choose_shipped(find_kernel(*workload.kernel), workload, "");
  }
  DeviceChoice choice = replay(read_named(name, objective), std::string(kReplay) + name);
  if (workload.kernel && *workload.kernel != choice.kernel_name) {
    find_kernel(*workload.kernel);  // an unknown name is the likelier mistake
    throw BadField("device",
                   name + " is a recording of " + choice.kernel_name + ", not of " + *workload.kernel);
  }
  if (!workload.names_problem()) return choice;
  if (choice.kernel == nullptr) {
    throw BadField("problem", choice.kernel_name + " in " + name +
                                  " is not moetune's recording: a problem and a preset do not apply");
  }
  const Problem wanted = problem_of(*choice.kernel, workload);
  if (!(wanted == choice.problem)) {
    throw BadField("device", name + " records " + choice.problem.text() + ", not " + wanted.text());
  }
  return choice;
}

using Pick = std::function<std::size_t(const std::vector<DeviceInfo>&)>;

constexpr const char* kGpuForms = "auto, cuda:N, a UUID (GPU-... or MIG-...) or a PCI id (0000:1b:00.0)";

[[noreturn]] void unknown_device(const std::string& device) {
  throw BadField("device", std::string("it is ") + kGpuForms + ", or replay:FILE; not '" + device + "'");
}

// The rule by which `device` picks a GPU: "auto" the idlest. Throws BadField for text of no such form.
Pick pick_of(const std::string& device) {
  if (device == "auto") return idlest_gpu;
  if (!is_gpu_name(device)) unknown_device(device);
  return [device](const std::vector<DeviceInfo>& gpus) { return named_gpu(gpus, device); };
}

// One worker serves the choice and what follows: starting the driver is slow.
DeviceChoice choose_cuda(const std::string& device, const Kernel& kernel, const WorkloadSpec& workload,
                         const WorkerWaits& waits) {
  DeviceChoice choice{
      .kernel = &kernel, .kernel_name = kernel.name(), .problem = problem_of(kernel, workload)};
  choice.builder = std::make_shared<BuildSource>();
  choice.device = std::make_unique<CudaDevice>(
      CudaDevice::Options{.pick = pick_of(device),
                          .slice = named_slice(device),
                          .waits = waits,
                          .build = [builder = choice.builder](const std::vector<CompileUnit>& units) {
                            return (*builder)(units);
                          }});
  return choice;
}

// Every recording of a folder, in order of name; one file; or those that are shipped, for "".
std::vector<RecordingPtr> read_all(const std::string& name, const Kernel& kernel) {
  std::vector<RecordingPtr> all;
  std::error_code unreachable;
  if (means_all_shipped(name)) {
    for (const ShippedRecording& shipped : list_shipped_recordings()) {
      if (shipped.header.kernel == kernel.name()) all.push_back(read_shipped(shipped));
    }
  } else if (std::filesystem::is_directory(name, unreachable)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(name)) {
      if (entry.path().filename().string().find(".json") != std::string::npos) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) all.push_back(std::make_shared<const Recording>(read_recording(file)));
  } else {
    all.push_back(read_named(name, "time"));
  }
  return all;
}

// Takes the recordings of one family on one GPU.
DeviceChoice replay_family(const std::string& name, const Kernel& kernel, const WorkloadSpec& workload) {
  const std::string family = kernel.specialization(problem_of(kernel, workload)).text();
  DeviceChoice choice{.kernel = &kernel, .kernel_name = kernel.name()};
  std::vector<Problem> problems;
  for (RecordingPtr& recording : read_all(name, kernel)) {
    if (!recording->is_moetunes() || recording->kernel != kernel.name()) continue;
    const std::optional<Problem> problem = known_problem(recording->problem, kernel);
    if (!problem || kernel.specialization(*problem).text() != family) continue;
    if (std::find(problems.begin(), problems.end(), *problem) != problems.end()) continue;
    if (!choice.recordings.empty() &&
        choice.recordings.front()->hardware.text() != recording->hardware.text())
      continue;
    problems.push_back(*problem);
    choice.recordings.push_back(std::move(recording));
  }
  const std::string where = means_all_shipped(name) ? "no shipped recording" : "no recording of " + name;
  if (problems.empty()) throw BadField("device", where + " is of " + kernel.name() + " " + family);
  choice.problem = problems.front();
  choice.recording = choice.recordings.front();
  choice.device = std::make_unique<ReplayDevice>(choice.recordings, std::string(kReplay) + name);
  return choice;
}

// A brief problem as one asks for it.
std::string options_of(const std::string& brief) {
  const std::size_t space = brief.find(' ');
  if (brief == "default") return "(no option: it is the default)";
  if (space != std::string::npos)
    return "--preset " + brief.substr(0, space) + " --problem " + brief.substr(space + 1);
  return (brief.find('=') == std::string::npos ? "--preset " : "--problem ") + brief;
}

// The shipped recording of the problem that was asked for; where none was, of the kernel's default problem,
// else the first. `why_no_gpu` is empty where the shipped recordings were asked for.
DeviceChoice choose_shipped(const Kernel& kernel, const WorkloadSpec& workload,
                            const std::string& why_no_gpu) {
  const Problem wanted = problem_of(kernel, workload);
  std::optional<ShippedRecording> first, fitting;
  std::string known;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.header.kernel != kernel.name()) continue;
    const std::optional<Problem> problem = known_problem(shipped.header.problem, kernel);
    if (!problem) continue;
    if (!first) first = shipped;
    if (*problem == wanted) fitting = shipped;
    const std::string brief = brief_problem(kernel.name(), problem->text());
    known += "\n  " + options_of(brief);
  }
  const std::string no_gpu = why_no_gpu.empty() ? "" : "no GPU here (" + why_no_gpu + "); and ";
  if (!first) {
    throw BrokenEnvironment(no_gpu + "no recording of " + kernel.name() + " is shipped" + recordings_home() +
                            " to stand in. Without a GPU `moetune compile " + kernel.name() +
                            "` and `moetune space " + kernel.name() +
                            "` work, and --device replay:FILE takes a recording");
  }
  if (!fitting && workload.names_problem()) {
    throw BrokenEnvironment(
        no_gpu + "no shipped recording is of " + kernel.name() + " " +
        brief_problem(kernel.name(), wanted.text()) +
        ". Without a GPU `moetune compile` and `moetune space` work with this problem, and `moetune search " +
        kernel.name() + "` with what is recorded" + recordings_home() + ":" + known);
  }
  const ShippedRecording& chosen = fitting ? *fitting : *first;
  DeviceChoice choice = replay(read_shipped(chosen), std::string(kReplay) + chosen.name());
  choice.why_no_gpu = why_no_gpu;
  return choice;
}

}  // namespace

Problem problem_of(const Kernel& kernel, const WorkloadSpec& spec) {
  const Preset* preset = nullptr;
  std::vector<std::string> names;
  for (const Preset& candidate : kernel.presets()) {
    if (candidate.name == spec.preset) preset = &candidate;
    names.push_back(candidate.name);
  }
  if (preset == nullptr && !spec.preset.empty()) {
    const std::string advice = kernel.advice_for_unknown_preset(spec.preset);
    throw BadField("preset", unknown_name("preset of " + kernel.name(), spec.preset, names) +
                                 (advice.empty() ? "" : ". " + advice));
  }
  try {
    Problem problem = parse_problem(kernel.name(), kernel.schema(), preset, spec.problem);
    kernel.check(problem);
    return problem;
  } catch (const BadInput& error) {
    throw BadField("problem", error.what());
  }
}

WorkerWaits waits_of(const JobContext& context, double time_s) {
  constexpr double kLeastStart = 10;  // seconds: of a driver that has many GPUs to start
  WorkerWaits waits{.slow = [events = context.events](const std::string& sentence) {
    events.emit(Warning{WarningKind::waiting, sentence});
  }};
  if (time_s > 0) {
    const double limit =
        std::min(std::chrono::duration<double>(waits.start_limit).count(), std::max(time_s, kLeastStart));
    waits.start_limit = std::chrono::milliseconds(std::llround(1e3 * limit));
  }
  return waits;
}

std::string no_gpu_text(std::string_view job, const std::string& why) {
  return std::string(job) + " needs a GPU, and there is none here: " + why + "; " + std::string(job) +
         " replays recordings only if they are named: --device replay:FILE, or " + kShippedRecordings;
}

DeviceChoice choose_device(const std::string& device, const WorkloadSpec& workload, const ReplayChoice& how,
                           const WorkerWaits& waits) {
  if (device.starts_with(kReplay))
    return choose_recording(device.substr(kReplay.size()), workload, how.objective);
  if (!workload.kernel) throw BadField("kernel", "it is needed unless the device is a recording");
  const Kernel& kernel = find_kernel(*workload.kernel);
  pick_of(device);
  problem_of(kernel, workload);  // what is wrong with the input is said before what is wrong with the machine
  require_time(how.objective, "a GPU");
  if (device != "auto") return choose_cuda(device, kernel, workload, waits);
  try {
    return choose_cuda(device, kernel, workload, waits);
  } catch (const cuda::NoGpu& error) {
    if (!how.may_stand_in) throw BrokenEnvironment(no_gpu_text("this job", error.what()));
    return choose_shipped(kernel, workload, error.what());
  } catch (
      const BrokenEnvironment& error) {  // nothing may stand in for a driver that is there and does not work
    throw BrokenEnvironment(std::string(error.what()) + "; the device replay:FILE goes without a GPU");
  }
}

DeviceChoice choose_family_device(const std::string& device, const WorkloadSpec& workload,
                                  const ReplayChoice& how, const WorkerWaits& waits) {
  if (!workload.kernel) throw BadField("kernel", "it is needed");
  const Kernel& kernel = find_kernel(*workload.kernel);
  require_time(how.objective, "a range");
  if (device.starts_with(kReplay)) return replay_family(device.substr(kReplay.size()), kernel, workload);
  pick_of(device);
  problem_of(kernel, workload);
  try {
    return choose_cuda(device, kernel, workload, waits);
  } catch (const cuda::NoGpu& error) {
    if (device != "auto") throw;
    if (!how.may_stand_in) throw BrokenEnvironment(no_gpu_text("this job", error.what()));
    DeviceChoice choice =
        replay_family(std::string(kShippedRecordings).substr(kReplay.size()), kernel, workload);
    choice.why_no_gpu = error.what();
    return choice;
  }
}

DeviceChoice choose_gpu(const std::string& device, const WorkloadSpec& workload, std::string_view job,
                        const WorkerWaits& waits) {
  if (!workload.kernel) throw BadField("kernel", "it is needed");
  const Kernel& kernel = find_kernel(*workload.kernel);
  problem_of(kernel, workload);
  if (device.starts_with(kReplay)) {
    throw BadField("device", device + ": a recording cannot run kernels, as " + std::string(job) +
                                 " does; it needs a GPU: " + kGpuForms);
  }
  try {
    return choose_cuda(device, kernel, workload, waits);
  } catch (const cuda::NoGpu& error) {
    throw BrokenEnvironment(std::string(job) + " needs a GPU, and there is none here: " + error.what());
  }
}

DeviceChoice choose_opened(DeviceChoice opened, const WorkloadSpec& workload) {
  if (!workload.kernel) throw BadField("kernel", "it is needed");
  opened.kernel = &find_kernel(*workload.kernel);
  opened.kernel_name = opened.kernel->name();
  opened.problem = problem_of(*opened.kernel, workload);
  return opened;
}

void require_recording(const std::string& device) {
  if (device != kShippedRecordings) find_named(device.substr(kReplay.size()));
}

GpuList list_gpus() {
  CudaDeviceList list = list_cuda_devices();
  return {std::move(list.devices), std::move(list.why_empty)};
}

DeviceInfo find_gpu(const std::string& device, std::string_view job, bool may_replay) {
  const Pick pick = pick_of(device);
  const CudaDeviceList gpus = list_cuda_devices(named_slice(device));
  if (gpus.devices.empty()) {
    if (may_replay) throw BrokenEnvironment(no_gpu_text(job, gpus.why_empty));
    throw BrokenEnvironment(std::string(job) + " needs a GPU, and there is none here: " + gpus.why_empty);
  }
  return gpus.devices[pick(gpus.devices)];
}

}  // namespace moetune
