#include "jobs/stored/key_finder.h"

#include "base/error.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/kernel_files.h"
#include "jobs/session/session.h"
#include "tuner/compile/compiler.h"

namespace moetune {

KeyFinder::KeyFinder(std::string device, bool no_compile, std::string job)
    : device_(std::move(device)), no_compile_(no_compile), job_(std::move(job)) {}

KeyFinder::KeyFinder(DeviceInfo gpu, bool no_compile, std::string job)
    : device_(gpu.id), no_compile_(no_compile), job_(std::move(job)), gpu_(std::move(gpu)) {}

void KeyFinder::look() {
  if (looked_) return;
  const bool replays = !gpu_ && device_.starts_with("replay:");
  if (!replays) {
    if (!gpu_) gpu_ = find_gpu(device_, job_, true);
    device_ = gpu_->id;
    toolchain_ = Compiler(Compiler::Options{.architecture = gpu_->architecture}).toolchain();
  }
  looked_ = true;
}

const std::string& KeyFinder::device() {
  look();
  return device_;
}

const DeviceInfo* KeyFinder::gpu() {
  look();
  return gpu_ ? &*gpu_ : nullptr;
}

WorkloadKey KeyFinder::of_recording(const std::string& kernel, const std::string& problem, bool family) const {
  const WorkloadSpec spec{.kernel = kernel, .problem = problem, .preset = ""};
  try {
    const Session session(choose_device(device_, spec, {.family = family}),
                          {.cache = {.path = "", .none = true}, .no_compile = no_compile_, .threads = 1}, {});
    return session.key();
  } catch (const BrokenEnvironment& error) {  // no GPU, and no recording of this one; there may be of the next
    const std::string why = error.what();
    throw BadInput(why.substr(0, why.find('\n')));
  }
}

WorkloadKey KeyFinder::find(const std::string& kernel, const std::string& problem) {
  look();
  if (!gpu_) return of_recording(kernel, problem, false);
  auto source = sources_.find(kernel);
  if (source == sources_.end()) source = sources_.emplace(kernel, kernel_source_digest(kernel)).first;
  return {kernel, problem, gpu_->key, source->second, toolchain_};
}

WorkloadKey KeyFinder::find_family(const std::string& kernel, const std::string& problem) {
  look();
  return gpu_ ? find(kernel, problem) : of_recording(kernel, problem, true);
}

}  // namespace moetune
