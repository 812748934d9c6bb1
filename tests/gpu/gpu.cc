#include "tests/gpu/gpu.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>

#include "base/resources.h"
#include "tests/gpu/planted.h"

namespace moetune {
namespace {

const CudaDeviceList& devices() {
  static const CudaDeviceList list = list_cuda_devices();
  return list;
}

std::optional<std::string> read_source(const std::string& path) {
  return path == kPlantedSource ? std::optional(planted_source()) : find_resource(path);
}

const Compiler& compiler() {
  static const Compiler instance(
      {.architecture = devices().devices.front().architecture, .reader = read_source});
  return instance;
}

// e = 0 and the all-ones exponent are special; e4m3 has no infinity and one NaN.
double widen_small_float(unsigned bits, int exponent_bits, int fraction_bits, bool has_infinity) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const bool negative = ((bits >> (exponent_bits + fraction_bits)) & 1) != 0;
  const bool top = exponent == (1 << exponent_bits) - 1;
  double value = 0;
  if (top && has_infinity) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (top && fraction == (1 << fraction_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  return negative ? -value : value;
}

template <typename T>
std::vector<T> elements_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
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

std::vector<double> widened(DType type, const Bytes& bytes) {
  std::vector<double> values;
  switch (type) {
    case DType::f32:
      for (float value : elements_of<float>(bytes)) values.push_back(value);
      break;
    case DType::i32:
      for (std::int32_t value : elements_of<std::int32_t>(bytes)) values.push_back(value);
      break;
    case DType::f16:
      for (std::uint16_t bits : elements_of<std::uint16_t>(bytes))
        values.push_back(widen_small_float(bits, 5, 10, true));
      break;
    case DType::bf16:
      for (std::uint16_t bits : elements_of<std::uint16_t>(bytes))
        values.push_back(widen_small_float(bits, 8, 7, true));
      break;
    case DType::e4m3:
      for (std::uint8_t bits : bytes) values.push_back(widen_small_float(bits, 4, 3, false));
      break;
  }
  return values;
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
