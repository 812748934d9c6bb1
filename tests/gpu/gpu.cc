#include "tests/gpu/gpu.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/resources.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/planted_ids.h"

namespace moetune {
namespace {

const CudaDeviceList& devices() {
  static const CudaDeviceList list = list_cuda_devices();
  return list;
}

std::optional<std::string> read_source(const std::string& path) {
  if (path == kPlantedSource) return planted_source();
  if (path == kPlantedIdsSource) return planted_ids_source();
  return find_resource(path);
}

const Compiler& compiler() {
  static const Compiler instance(
      {.architecture = devices().devices.front().architecture, .reader = read_source});
  return instance;
}

}  // namespace

bool no_gpu() {
  if (!devices().devices.empty()) return false;
  static bool said = false;
  if (!said) std::printf("SKIPPED: %s\n", devices().why_empty.c_str());
  said = true;
  return true;
}

CompilePool& gpu_compiler() {
  static CompilePool pool(compiler(), std::max(1u, std::thread::hardware_concurrency()));
  return pool;
}

BuildPtr compile_for_gpu(const CompileUnit& unit) { return gpu_compiler().submit(unit).get(); }

CudaDevice& gpu() {
  static CudaDevice device([] {
    CudaDevice::Options options;
    options.build = [](const std::vector<CompileUnit>& units) { return gpu_compiler().build_now(units); };
    return options;
  }());
  return device;
}

MeasurePolicy one_sample() {
  MeasurePolicy policy;
  policy.quick_samples = policy.min_samples = policy.max_samples = 1;
  return policy;
}

std::size_t sample_size(std::size_t fallback) {
  const char* text = std::getenv("MOETUNE_GPU_SAMPLE");
  return text != nullptr ? static_cast<std::size_t>(std::max(1, std::atoi(text))) : fallback;
}

}  // namespace moetune
