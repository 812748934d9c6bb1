#include "tests/gpu/gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/resources.h"
#include "tests/gpu/cheats.h"
#include "tests/gpu/planted.h"
#include "tests/gpu/planted_ids.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune {
namespace {

const CudaDeviceList& devices() {
  static const CudaDeviceList list = list_cuda_devices();
  return list;
}

std::optional<std::string> read_source(const std::string& path) {
  if (path == kPlantedSource) return planted_source();
  if (path == kPlantedIdsSource) return planted_ids_source();
  if (path == kCheatsSource) return cheats_source();
  return find_resource(path);
}

const Compiler& compiler() {
  static const Compiler instance({.architecture = devices().devices.front().architecture, .reader = read_source});
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

void check_close(const std::vector<double>& actual, const std::vector<double>& expected, double share) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0, worst = 0;
  std::size_t masks = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(actual[i]) && std::isfinite(expected[i])) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(actual[i] - expected[i]));
    } else {
      const bool both_nan = std::isnan(actual[i]) && std::isnan(expected[i]);
      masks += !both_nan && actual[i] != expected[i];
    }
  }
  CHECK(masks == 0);
  CHECK(largest > 0);
  CHECK(worst <= share * largest);
}

std::size_t count_differences(const std::vector<double>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  std::size_t differences = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) differences += actual[i] != expected[i];
  return differences;
}

void check_exact_reference(const Kernel& kernel, const Problem& problem, const Call& call, std::uint64_t seed) {
  const std::vector<Buffer> buffers = kernel.buffers(problem, call, seed);
  HostTensors inputs;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_read()) inputs[buffers[i].name] = host_values(buffers[i], seed, fill_stream(i, 0));
  }
  for (const auto& [name, expected] : answer_on_cpu(problem, call, inputs)) {
    CAPTURE(name);
    const auto written =
        std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& buffer) { return buffer.name == name; });
    REQUIRE(written != buffers.end());
    const std::vector<double> actual =
        widened(exact_dtype(written->dtype), gpu().fetch(name, CudaDevice::Tensor::exact));
    if (is_integer(written->dtype)) {
      CHECK(count_differences(actual, expected) == 0);
    } else {
      check_close(actual, expected, 2e-5);
    }
  }
}

MeasurePolicy one_sample() {
  MeasurePolicy policy;
  policy.quick_samples = policy.min_samples = policy.max_samples = 1;
  return policy;
}

std::size_t sample_size(std::size_t default_value) {
  const char* text = std::getenv("MOETUNE_GPU_SAMPLE");
  return text != nullptr ? static_cast<std::size_t>(std::max(1, std::atoi(text))) : default_value;
}

}  // namespace moetune
