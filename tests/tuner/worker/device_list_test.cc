#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/paths.h"
#include "tests/tuner/doubling_kernel.h"
#include "tuner/worker/cuda_device.h"

namespace moetune::device_list_test {
namespace {

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the devices are listed by a worker, with what their driver says") {
  use_fake_cuda("devices=2");
  const CudaDeviceList list = list_cuda_devices();
  REQUIRE(list.devices.size() == 2);
  CHECK(list.why_empty.empty());
  const DeviceInfo& second = list.devices[1];
  CHECK(second.id == "cuda:1");
  CHECK(second.architecture == "sm_90a");
  CHECK(second.key.name == "Fake GPU 1");
  CHECK(second.key.compute_capability == 90);
  CHECK(second.key.sm_count == 4);
  CHECK(second.key.sm_clock_khz == 1'000'000);
  CHECK(second.limits.shared_per_block == 232448);
  CHECK(second.key.memory_bytes == 16 << 20);
  CHECK(second.key.l2_bytes == second.limits.l2_bytes);
  CHECK(second.pci_bus_id == "0000:01:00.0");
  CHECK(second.uuid == "GPU-01ababab-abab-abab-abab-abababababab");
}

TEST_CASE("a listed GPU says how busy it is, if NVML does") {
  use_fake_cuda("devices=2");
  setenv("MOETUNE_LIBNVML", "/nowhere/libnvidia-ml.so.1", 1);
  CHECK_FALSE(list_cuda_devices().devices.at(1).load);
  setenv("MOETUNE_LIBNVML", paths::fake_libnvml(), 1);
  setenv("MOETUNE_FAKE_NVML", "busy1=2,free1=4096", 1);
  const std::optional<GpuLoad> load = list_cuda_devices().devices.at(1).load;
  unsetenv("MOETUNE_LIBNVML");
  unsetenv("MOETUNE_FAKE_NVML");
  REQUIRE(load);
  CHECK(load->foreign_processes == 2);
  CHECK(load->free_bytes == 4096);
}

namespace {

// What the scripted driver and NVML say while it lives.
struct Scripted {
  Scripted(const std::string& cuda, const char* nvml) {
    use_fake_cuda(cuda);
    setenv("MOETUNE_LIBNVML", nvml == nullptr ? "/nowhere" : paths::fake_libnvml(), 1);
    setenv("MOETUNE_FAKE_NVML", nvml == nullptr ? "" : nvml, 1);
  }
  ~Scripted() {
    unsetenv("MOETUNE_LIBNVML");
    unsetenv("MOETUNE_FAKE_NVML");
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
};

constexpr const char* kThirdSlice = "MIG-02ababab-abab-abab-abab-abababababab";

}  // namespace

TEST_CASE("a slice of a divided GPU is listed as nvidia-smi prints it, and a named one is shown to the worker") {
  const Scripted scripted("slices=3", "slices0=3");
  CHECK(list_cuda_devices().devices.at(0).uuid == "MIG-00ababab-abab-abab-abab-abababababab");
  CHECK(list_cuda_devices().devices.at(0).id == "cuda:0");
  const DeviceInfo named = list_cuda_devices(kThirdSlice).devices.at(0);
  CHECK(named.uuid == kThirdSlice);
  CHECK(named.id == kThirdSlice);  // two slices of a host are both cuda:0 to who sees them
  const CudaDevice device(
      {.slice = kThirdSlice, .build = [](const std::vector<CompileUnit>&) { return std::vector<BuildPtr>(); }});
  CHECK(device.info().uuid == kThirdSlice);
  CHECK(mentions(list_cuda_devices("MIG-07").why_empty, "there is no MIG-07"));
  setenv("CUDA_VISIBLE_DEVICES", "MIG-01ababab-abab-abab-abab-abababababab",
         1);  // who restricts it is to have it so
  CHECK(list_cuda_devices(kThirdSlice).devices.at(0).uuid == "MIG-01ababab-abab-abab-abab-abababababab");
}

TEST_CASE("without NVML the driver's name of a slice tells that it is one") {
  const Scripted scripted("name=NVIDIA H200 MIG 1g.18gb", nullptr);
  CHECK(list_cuda_devices().devices.at(0).uuid == "MIG-00ababab-abab-abab-abab-abababababab");
}

TEST_CASE("processes of other slices are not foreign, and a slice has memory of its own") {
  // Five compute on GPU 0: three in slice 9, two in slice 0.
  const char* const script = "slices0=3,busy0=5,apart0=3,own0=0,slicefree0=777";
  for (const bool lists_its_own : {true, false}) {
    CAPTURE(lists_its_own);
    const std::string nvml = std::string(script) + (lists_its_own ? "" : ",opaque0=1");
    const Scripted scripted("slices=3", nvml.c_str());
    const std::optional<GpuLoad> load = list_cuda_devices().devices.at(0).load;
    REQUIRE(load);
    CHECK(load->foreign_processes == 2);
    CHECK(load->free_bytes == 777);
  }
  const Scripted whole("", "busy0=5");
  CHECK(list_cuda_devices().devices.at(0).load->foreign_processes == 5);
}

TEST_CASE("the toolkit's stub of the driver is named as such") {
  const Scripted scripted("stub", nullptr);
  const CudaDeviceList list = list_cuda_devices();
  CHECK(mentions(list.why_empty, std::string(paths::fake_libcuda()) + " is the CUDA toolkit's stub of the driver"));
  CHECK(mentions(list.why_empty, "LD_LIBRARY_PATH"));
  CHECK(list.broken);        // it was named
  use_fake_cuda("init=34");  // an older one, which gives its functions away
  CHECK(mentions(list_cuda_devices().why_empty, "is the CUDA toolkit's stub of the driver"));
}

TEST_CASE("a machine without a driver lists no device and says why") {
  setenv("MOETUNE_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  const CudaDeviceList list = list_cuda_devices();
  CHECK(list.devices.empty());
  CHECK(mentions(list.why_empty, "/nowhere/libcuda.so.1"));
  CHECK_FALSE(list.broken);
  CHECK_THROWS_WITH_AS(fake_device(), doctest::Contains("install the NVIDIA driver"), BrokenEnvironment);
}

TEST_CASE("a driver that lacks a library of its own is broken, and not absent") {
  const auto path = std::filesystem::temp_directory_path() / ("moetune_orphan_" + std::to_string(::getpid()) + ".so");
  std::ifstream in(paths::fake_libcuda(), std::ios::binary);
  std::string library(std::istreambuf_iterator<char>(in), {});
  const std::string needed = "libc.so.6", missing = "libX.so.6";
  for (std::size_t at = 0; (at = library.find(needed, at)) != std::string::npos;)
    library.replace(at, needed.size(), missing);
  std::ofstream(path, std::ios::binary) << library;
  use_fake_cuda();
  setenv("MOETUNE_LIBCUDA", path.c_str(), 1);
  const CudaDeviceList list = list_cuda_devices();
  std::filesystem::remove(path);
  CHECK(mentions(list.why_empty, "the CUDA driver cannot be loaded: libX.so.6"));
  CHECK(list.broken);
}

TEST_CASE("a driver without a GPU, one that does not start and one that is too old are told apart") {
  const auto says = [](bool broken, const char* words) {
    const CudaDeviceList list = list_cuda_devices();
    CAPTURE(list.why_empty);
    CHECK(mentions(list.why_empty, words));
    CHECK(list.broken == broken);
  };
  use_fake_cuda("init=100");
  says(false, "finds no GPU");
  use_fake_cuda("init=999");
  says(true, "CUDA_ERROR_UNKNOWN");
  use_fake_cuda("without=cuLaunchKernelEx");
  says(true, "has no cuLaunchKernelEx; update it");
  setenv("MOETUNE_LIBCUDA", "/proc/self/cmdline", 1);  // there, and no library
  says(true, "the CUDA driver cannot be loaded");
}

}  // namespace moetune::device_list_test
