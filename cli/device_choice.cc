#include "cli/device_choice.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/suggest.h"
#include "kernels/registry.h"
#include "replay/replay_device.h"
#include "replay/shipped.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {
namespace {

constexpr std::string_view kReplay = "replay:";
constexpr std::string_view kCuda = "cuda:";

using RecordingPtr = std::shared_ptr<const Recording>;

// Where the recordings come from, for messages about one that is missing.
std::string recordings_home() {
  const char* const folder = std::getenv("MOETUNE_DATA_DIR");
  return folder != nullptr && *folder != '\0' ? " in MOETUNE_DATA_DIR (" + std::string(folder) + ")" : "";
}

RecordingPtr read_shipped(const ShippedRecording& shipped) {
  return std::make_shared<const Recording>(shipped.read());
}

// A file, or a shipped recording by its name.
RecordingPtr read_named(const std::string& name) {
  if (name.empty()) throw BadInput("--device replay: names no recording: replay:FILE");
  std::error_code unreachable;
  const std::filesystem::file_status status = std::filesystem::status(name, unreachable);
  if (std::filesystem::exists(status)) return std::make_shared<const Recording>(read_recording(name));
  if (status.type() == std::filesystem::file_type::none) {
    throw BadInput("cannot look at the recording " + name + ": " + unreachable.message());
  }
  std::vector<std::string> names;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    names.push_back(shipped.name());
    if (names.back() == name) return read_shipped(shipped);
  }
  throw BadInput(names.empty()
                     ? "there is no file " + name + ", and no recording" + recordings_home()
                     : "no such file; " + unknown_name("recording", name, names) + recordings_home());
}

// The recorded problem in today's schema: its text may predate a dimension.
Problem recorded_problem(const std::string& text, const Kernel& kernel) {
  return parse_problem(kernel.name(), kernel.schema(), nullptr, text);
}

DeviceChoice replay(RecordingPtr recording, const std::string& id) {
  DeviceChoice choice{
      .recording = recording, .kernel = known_kernel(recording->kernel), .kernel_name = recording->kernel};
  choice.problem = {recording->kernel, {}};
  try {
    if (choice.kernel != nullptr) choice.problem = recorded_problem(recording->problem, *choice.kernel);
  } catch (const BadInput& error) {
    throw BadInput(id + " is of a problem that moetune does not know: " + error.what());
  }
  choice.device = std::make_unique<ReplayDevice>(recording, id);
  choice.banner = "Replaying measurements of " + recording->kernel +
                  (recording->problem.empty() ? "" : " " + recording->problem) + ", recorded on " +
                  recording->hardware.name +
                  (recording->recorded_at.empty() ? "" : " on " + recording->recorded_at) + ".";
  return choice;
}

DeviceChoice choose_recording(const std::string& name, const WorkloadOptions& workload) {
  DeviceChoice choice = replay(read_named(name), std::string(kReplay) + name);
  if (workload.kernel && *workload.kernel != choice.kernel_name) {
    find_kernel(*workload.kernel);  // an unknown name is the likelier mistake
    throw BadInput(name + " is a recording of " + choice.kernel_name + ", not of " + *workload.kernel);
  }
  if (!workload.names_problem()) return choice;
  if (choice.kernel == nullptr) {
    throw BadInput(choice.kernel_name + " in " + name +
                   " is not moetune's kernel: --problem and --preset do not apply");
  }
  const Problem wanted = problem_of(*choice.kernel, workload);
  if (!(wanted == choice.problem)) {
    throw BadInput(name + " records " + choice.problem.text() + ", not " + wanted.text());
  }
  return choice;
}

DeviceChoice choose_cuda(int ordinal, const Kernel& kernel, const WorkloadOptions& workload) {
  DeviceChoice choice{
      .kernel = &kernel, .kernel_name = kernel.name(), .problem = problem_of(kernel, workload)};
  choice.builder = std::make_shared<BuildSource>();
  choice.device = std::make_unique<CudaDevice>(CudaDevice::Options{
      .ordinal = ordinal, .build = [builder = choice.builder](const std::vector<CompileUnit>& units) {
        return (*builder)(units);
      }});
  const DeviceInfo& info = choice.device->info();
  choice.banner = kernel.name() + " " + choice.problem.text() + " on " + info.key.name + " (" + info.id +
                  ", " + info.architecture + ").";
  return choice;
}

int parse_ordinal(const std::string& device) {
  int ordinal = -1;
  const char* const begin = device.data() + kCuda.size();
  const char* const end = device.data() + device.size();
  const auto [stop, error] = std::from_chars(begin, end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0) {
    throw BadInput("--device " + device + ": a GPU is cuda:0, cuda:1, ...");
  }
  return ordinal;
}

[[noreturn]] void unknown_device(const std::string& device) {
  throw BadInput("--device takes auto, cuda:N or replay:FILE, not '" + device + "'");
}

// The shipped recording of the problem that was asked for; where none was, of the kernel's default problem,
// else the first.
DeviceChoice choose_shipped(const Kernel& kernel, const WorkloadOptions& workload,
                            const std::string& why_no_gpu) {
  const Problem wanted = problem_of(kernel, workload);
  std::optional<ShippedRecording> first, fitting;
  std::string known;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    if (shipped.header.kernel != kernel.name()) continue;
    const Problem problem = recorded_problem(shipped.header.problem, kernel);
    if (!first) first = shipped;
    if (problem == wanted) fitting = shipped;
    known += "\n  --problem " + problem.text();
  }
  if (!first) {
    throw BrokenEnvironment("no GPU here (" + why_no_gpu + "); and no recording of " + kernel.name() +
                            " is shipped" + recordings_home() +
                            " to stand in; --device replay:FILE takes one");
  }
  if (!fitting && workload.names_problem()) {
    throw BrokenEnvironment("no GPU here (" + why_no_gpu + "); and no shipped recording is of " +
                            kernel.name() + " " + wanted.text() + "; recorded" + recordings_home() +
                            " are:" + known);
  }
  const ShippedRecording& chosen = fitting ? *fitting : *first;
  DeviceChoice choice = replay(read_shipped(chosen), std::string(kReplay) + chosen.name());
  choice.banner = "No GPU here: " + why_no_gpu + ".\n" + choice.banner;
  return choice;
}

// Models that people look for, and whose attention is another kernel.
std::string why_no_preset(const Kernel& kernel, const std::string& preset) {
  const bool latent =
      preset.starts_with("deepseek-v3") || preset.starts_with("deepseek-r1") || preset.starts_with("kimi-k2");
  if (kernel.name() != "decode_attention" || !latent) return "";
  return ". That model attends over a compressed latent (MLA), which this kernel does not cover";
}

}  // namespace

Problem problem_of(const Kernel& kernel, const WorkloadOptions& workload) {
  const Preset* preset = nullptr;
  std::vector<std::string> names;
  for (const Preset& candidate : kernel.presets()) {
    if (candidate.name == workload.preset) preset = &candidate;
    names.push_back(candidate.name);
  }
  if (preset == nullptr && !workload.preset.empty()) {
    throw BadInput(unknown_name("preset of " + kernel.name(), workload.preset, names) +
                   why_no_preset(kernel, workload.preset));
  }
  Problem problem = parse_problem(kernel.name(), kernel.schema(), preset, workload.problem);
  kernel.check(problem);
  return problem;
}

DeviceChoice choose_device(const std::string& device, const WorkloadOptions& workload) {
  if (device.starts_with(kReplay)) return choose_recording(device.substr(kReplay.size()), workload);
  if (!workload.kernel) throw BadInput("which KERNEL? `moetune kernels` lists them");
  const Kernel& kernel = find_kernel(*workload.kernel);
  if (device.starts_with(kCuda)) return choose_cuda(parse_ordinal(device), kernel, workload);
  if (device != "auto") unknown_device(device);
  problem_of(kernel, workload);  // what is wrong with the input is said before what is wrong with the machine
  const CudaDeviceList gpus = list_cuda_devices();
  if (!gpus.devices.empty()) return choose_cuda(0, kernel, workload);
  if (gpus.broken) {  // nothing may stand in for a driver that is there and does not work
    throw BrokenEnvironment(gpus.why_empty + "; --device replay:FILE goes without a GPU");
  }
  return choose_shipped(kernel, workload, gpus.why_empty);
}

DeviceChoice choose_gpu(const std::string& device, const WorkloadOptions& workload,
                        std::string_view command) {
  const Kernel& kernel = find_kernel(workload.kernel.value());  // which these commands require
  problem_of(kernel, workload);
  if (device.starts_with(kReplay)) {
    throw BadInput("--device " + device + ": a recording cannot run kernels, as " + std::string(command) +
                   " does; it needs a GPU: auto or cuda:N");
  }
  if (device.starts_with(kCuda)) return choose_cuda(parse_ordinal(device), kernel, workload);
  if (device != "auto") unknown_device(device);
  const CudaDeviceList gpus = list_cuda_devices();
  if (gpus.devices.empty()) {
    throw BrokenEnvironment(std::string(command) + " needs a GPU, and there is none here: " + gpus.why_empty);
  }
  return choose_cuda(0, kernel, workload);
}

}  // namespace moetune
