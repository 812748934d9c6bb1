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
  throw BadField("device", names.empty()
                               ? "there is no file " + name + ", and no recording" + recordings_home()
                               : "no such file; " + unknown_name("recording", name, names) + recordings_home());
}

RecordingPtr read_named(const std::string& name, const std::string& objective) {
  const std::optional<ShippedRecording> shipped = find_named(name);
  return shipped ? read_shipped(*shipped, objective)
                 : std::make_shared<const Recording>(read_recording(name, objective));
}

// The meaning of NAME in replay:NAME. A file of the name that means all shipped recordings comes first.
enum class Source { one, folder, shipped };
Source source_of(const std::string& name) {
  std::error_code unreachable;
  if (std::filesystem::is_directory(name, unreachable)) return Source::folder;
  const bool means_all =
      std::string(kReplay) + name == kShippedRecordings && !std::filesystem::exists(name, unreachable);
  return means_all ? Source::shipped : Source::one;
}

// The recorded problem in today's schema: its text may predate a dimension.
Problem recorded_problem(const std::string& text, const Kernel& kernel) { return kernel.parse(text); }

// nullopt if moetune does not know it: a folder of recordings may hold anything.
std::optional<Problem> known_problem(const std::string& text, const Kernel& kernel) {
  try {
    return recorded_problem(text, kernel);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

// `recordings` are of one kernel, the first of `what`.
DeviceChoice replay(KernelProblem what, std::vector<RecordingPtr> recordings, const std::string& name) {
  DeviceChoice choice{.what = std::move(what), .recordings = std::move(recordings)};
  choice.recording = choice.recordings.front();
  choice.device = std::make_unique<ReplayDevice>(choice.recordings, std::string(kReplay) + name, replay_pace());
  return choice;
}

// Another tuner's results are rows alone, even if the kernel has the name of one of moetune's.
KernelProblem problem_in(const Recording& recording, const std::string& name) try {
  const Kernel* const kernel = recording.is_moetunes() ? known_kernel(recording.kernel) : nullptr;
  if (kernel == nullptr) return {nullptr, {recording.kernel, {}}};
  return {kernel, recorded_problem(recording.problem, *kernel)};
} catch (const BadInput& error) {
  throw BadField("device",
                 std::string(kReplay) + name + " is of a problem that moetune does not know: " + error.what());
}

void require_time(const std::string& objective, const std::string& what) {
  if (!objective.empty() && objective != "time" && objective != kAnyObjective)
    throw BadField("objective",
                   what + " is searched for time alone; other figures are those of another tuner's results");
}

// One recording says itself what it is of; the request may only agree.
DeviceChoice choose_one(const std::string& name, const WorkloadSpec& workload, const std::string& objective) {
  RecordingPtr recording = read_named(name, objective);
  KernelProblem what = problem_in(*recording, name);
  if (workload.kernel && *workload.kernel != recording->kernel) {
    find_kernel(*workload.kernel);  // an unknown name is the likelier mistake
    throw BadField("device", name + " is a recording of " + recording->kernel + ", not of " + *workload.kernel);
  }
  if (workload.names_problem()) {
    if (what.kernel == nullptr)
      throw BadField("problem", recording->kernel + " in " + name +
                                    " is not moetune's recording: a problem and a preset do not apply");
    const Problem wanted = problem_of(*what.kernel, workload);
    if (!(wanted == what.problem))
      throw BadField("device", name + " records " + what.problem.text() + ", not " + wanted.text());
  }
  return replay(std::move(what), {std::move(recording)}, name);
}

// A brief problem as one asks for it.
std::string options_of(const std::string& brief) {
  const std::size_t space = brief.find(' ');
  if (brief == "default") return "(no option: it is the default)";
  if (space != std::string::npos) return "--preset " + brief.substr(0, space) + " --problem " + brief.substr(space + 1);
  return (brief.find('=') == std::string::npos ? "--preset " : "--problem ") + brief;
}

// The shipped recording of the problem that was asked for; where none was, of the kernel's default problem,
// else the first. `why_no_gpu` is empty where the shipped recordings were asked for.
DeviceChoice choose_shipped(const KernelProblem& what, bool names_problem, const std::string& why_no_gpu) {
  const std::string& kernel = what.problem.kernel;
  std::optional<ShippedRecording> first, fitting;
  std::string known;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.header.kernel != kernel) continue;
    const std::optional<Problem> problem = known_problem(shipped.header.problem, *what.kernel);
    if (!problem) continue;
    if (!first) first = shipped;
    if (*problem == what.problem) fitting = shipped;
    known += "\n  " + options_of(brief_problem(kernel, problem->text()));
  }
  const std::string no_gpu = why_no_gpu.empty() ? "" : "no GPU here (" + why_no_gpu + "); and ";
  if (!first) {
    throw BrokenEnvironment(no_gpu + "no recording of " + kernel + " is shipped" + recordings_home() +
                            " to stand in. Without a GPU `moetune compile " + kernel + "` and `moetune space " +
                            kernel + "` work, and --device replay:FILE takes a recording");
  }
  if (!fitting && names_problem) {
    throw BrokenEnvironment(
        no_gpu + "no shipped recording is of " + kernel + " " + brief_problem(kernel, what.problem.text()) +
        ". Without a GPU `moetune compile` and `moetune space` work with this problem, and `moetune search " + kernel +
        "` with what is recorded" + recordings_home() + ":" + known);
  }
  const ShippedRecording& chosen = fitting ? *fitting : *first;
  RecordingPtr recording = read_shipped(chosen);
  KernelProblem recorded = problem_in(*recording, chosen.name());
  return replay(std::move(recorded), {std::move(recording)}, chosen.name());
}

// Every recording of a folder, in order of name; one file; or those of the kernel that are shipped.
std::vector<RecordingPtr> read_all(const std::string& name, const Kernel& kernel) {
  std::vector<RecordingPtr> all;
  const Source source = source_of(name);
  if (source == Source::one) all.push_back(read_named(name, "time"));
  if (source == Source::shipped) {
    for (const ShippedRecording& shipped : list_shipped_recordings())
      if (shipped.header.kernel == kernel.name()) all.push_back(read_shipped(shipped));
  }
  if (source == Source::folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(name))
      if (entry.path().filename().string().find(".json") != std::string::npos) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) all.push_back(std::make_shared<const Recording>(read_recording(file)));
  }
  return all;
}

// The recordings of the problem, or of its family, on one GPU; each problem once.
DeviceChoice choose_among(const std::string& name, const KernelProblem& what, bool family) {
  const Kernel& kernel = *what.kernel;
  const auto part = [&](const Problem& problem) {
    return family ? kernel.specialization(problem).text() : problem.text();
  };
  std::vector<Problem> problems;
  std::vector<RecordingPtr> found;
  for (RecordingPtr& recording : read_all(name, kernel)) {
    if (!recording->is_moetunes() || recording->kernel != kernel.name()) continue;
    const std::optional<Problem> problem = known_problem(recording->problem, kernel);
    if (!problem || part(*problem) != part(what.problem)) continue;
    if (std::find(problems.begin(), problems.end(), *problem) != problems.end()) continue;
    if (!found.empty() && found.front()->hardware.text() != recording->hardware.text()) continue;
    problems.push_back(*problem);
    found.push_back(std::move(recording));
  }
  const std::string where = source_of(name) == Source::shipped ? "no shipped recording" : "no recording in " + name;
  if (found.empty()) throw BadField("device", where + " is of " + kernel.name() + " " + part(what.problem));
  return replay({&kernel, problems.front()}, std::move(found), name);
}

using Pick = std::function<std::size_t(const std::vector<DeviceInfo>&)>;

constexpr const char* kGpuForms = "auto, cuda:N, a UUID (GPU-... or MIG-...) or a PCI id (0000:1b:00.0)";

// The rule by which `device` picks a GPU: "auto" the idlest. Throws BadField for text of no such form.
Pick pick_of(const std::string& device) {
  if (device == "auto") return idlest_gpu;
  if (!is_gpu_name(device))
    throw BadField("device", std::string("it is ") + kGpuForms + ", or replay:FILE; not '" + device + "'");
  return [device](const std::vector<DeviceInfo>& gpus) { return named_gpu(gpus, device); };
}

// One worker serves the choice and what follows: starting the driver is slow.
DeviceChoice choose_cuda(const std::string& device, KernelProblem what, const WorkerWaits& waits) {
  DeviceChoice choice{.what = std::move(what), .builder = std::make_shared<BuildSource>()};
  choice.device = std::make_unique<CudaDevice>(CudaDevice::Options{
      .pick = pick_of(device),
      .slice = named_slice(device),
      .waits = waits,
      .build = [builder = choice.builder](const std::vector<CompileUnit>& units) { return (*builder)(units); }});
  return choice;
}

// A shipped recording for a GPU that is not there.
DeviceChoice stand_in(const KernelProblem& what, bool names_problem, const DeviceNeeds& needs, const std::string& why) {
  if (!needs.replay.may_stand_in) throw BrokenEnvironment(no_gpu_text("this job", why, true));
  DeviceChoice choice = needs.family ? choose_among(std::string(kShippedRecordings).substr(kReplay.size()), what, true)
                                     : choose_shipped(what, names_problem, why);
  choice.why_no_gpu = why;
  return choice;
}

}  // namespace

DeviceChoice choose_device(const std::string& device, const WorkloadSpec& workload, const DeviceNeeds& needs) {
  const bool replays = device.starts_with(kReplay);
  const std::string name = replays ? device.substr(kReplay.size()) : "";
  const bool runs_kernels = !needs.gpu_job.empty();
  if (replays && !runs_kernels && !needs.family && source_of(name) == Source::one)
    return choose_one(name, workload, needs.replay.objective);
  // Mistakes in the input are named before those of the machine.
  const KernelProblem what = kernel_problem(workload);
  require_time(needs.replay.objective, needs.family ? "a range" : replays ? device : "a GPU");
  if (replays && runs_kernels) {
    throw BadField("device", device + ": a recording cannot run kernels, as " + std::string(needs.gpu_job) +
                                 " does; it needs a GPU: " + kGpuForms);
  }
  if (replays && (needs.family || source_of(name) == Source::folder)) return choose_among(name, what, needs.family);
  if (replays) return choose_shipped(what, workload.names_problem(), "");
  try {
    return choose_cuda(device, what, needs.waits);
  } catch (const cuda::NoGpu& error) {
    if (runs_kernels) throw BrokenEnvironment(no_gpu_text(needs.gpu_job, error.what(), false));
    if (device != "auto") throw;
    return stand_in(what, workload.names_problem(), needs, error.what());
  } catch (const BrokenEnvironment& error) {  // of a driver that is there and does not work: nothing stands in for it
    if (runs_kernels || device != "auto") throw;
    throw BrokenEnvironment(std::string(error.what()) + "; the device replay:FILE goes without a GPU");
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

std::string no_gpu_text(std::string_view job, const std::string& why, bool may_replay) {
  const std::string name(job);
  return name + " needs a GPU, and there is none here: " + why +
         (may_replay ? "; " + name + " replays recordings only if they are named: --device replay:FILE, or " +
                           kShippedRecordings
                     : "");
}

void require_recording(const std::string& device) {
  if (device != kShippedRecordings) find_named(device.substr(kReplay.size()));
}

CudaDeviceList list_gpus() { return list_cuda_devices(); }

DeviceInfo find_gpu(const std::string& device, std::string_view job, bool may_replay) {
  const Pick pick = pick_of(device);
  const CudaDeviceList gpus = list_cuda_devices(named_slice(device));
  if (gpus.devices.empty()) throw BrokenEnvironment(no_gpu_text(job, gpus.why_empty, may_replay));
  return gpus.devices[pick(gpus.devices)];
}

}  // namespace moetune
