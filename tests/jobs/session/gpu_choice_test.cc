#include "jobs/session/gpu_choice.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace moetune;

namespace {

DeviceInfo gpu(int ordinal, std::optional<GpuLoad> load = std::nullopt) {
  DeviceInfo info;
  info.id = "cuda:" + std::to_string(ordinal);
  info.pci_bus_id = ordinal == 2 ? "0001:10:00.0" : "0000:1" + std::to_string(ordinal) + ":00.0";
  info.uuid = "GPU-1b2c3d4" + std::to_string(ordinal) + "-0000-0000-0000-000000000000";
  info.load = load;
  return info;
}

const std::vector<DeviceInfo> kThree = {gpu(0), gpu(1), gpu(2)};

}  // namespace

TEST_CASE("a GPU is named by ordinal, UUID or PCI id, in any case") {
  CHECK(named_gpu(kThree, "cuda:1") == 1);
  CHECK(named_gpu(kThree, "GPU-1b2c3d42-0000-0000-0000-000000000000") == 2);
  CHECK(named_gpu(kThree, "gpu-1B2C3D41") == 1);
  CHECK(named_gpu(kThree, "0000:11:00.0") == 1);
  CHECK(named_gpu(kThree, "00000001:10:00.0") == 2);  // as nvidia-smi writes it
  CHECK(named_gpu(kThree, "11:00.0") == 1);
}

TEST_CASE("a slice of a divided GPU is named as nvidia-smi prints it") {
  std::vector<DeviceInfo> gpus = {gpu(0), gpu(1)};
  gpus[1].uuid = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f";
  CHECK(is_gpu_name("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"));
  CHECK(named_gpu(gpus, "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f") == 1);
  CHECK(named_gpu(gpus, "mig-C6D4") == 1);
  CHECK_THROWS_WITH_AS(named_gpu(gpus, "MIG-ff"), doctest::Contains("MIG-c6d4f1ef"), BrokenEnvironment);
  CHECK_THROWS_AS(named_gpu(gpus, "GPU-c6d4f1ef"), BrokenEnvironment);
  CHECK(named_slice("MIG-c6d4f1ef") == "MIG-c6d4f1ef");
  CHECK(named_slice("GPU-1b2c3d40") == "");
  CHECK(named_slice("cuda:0") == "");
}

TEST_CASE("a name that fits several GPUs is refused, with those that it fits") {
  CHECK_THROWS_WITH_AS(named_gpu(kThree, "GPU-1b2c"), doctest::Contains("ambiguous: cuda:0"), BadField);
  CHECK_THROWS_WITH_AS(named_gpu(kThree, "10:00.0"), doctest::Contains("cuda:2 (0001:10:00.0"), BadField);
}

TEST_CASE("a name that fits none says which GPUs there are") {
  for (const char* name : {"cuda:3", "GPU-ff", "0000:99:00.0", "11:00.1"}) {
    CAPTURE(name);
    CHECK(is_gpu_name(name));
    CHECK_THROWS_WITH_AS(named_gpu(kThree, name), doctest::Contains("cuda:2"), BrokenEnvironment);
  }
}

TEST_CASE("what has no form of a GPU's name is none") {
  for (const char* text : {"auto", "gpu", "replay:x", "", "0000:11:00", "zz:00.0", ":11:00.0", "11:00."}) {
    CAPTURE(text);
    CHECK_FALSE(is_gpu_name(text));
  }
  for (const char* text : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:01"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(is_gpu_name(text), BadField);
  }
}

TEST_CASE("auto takes an idle GPU before a busy one, then free memory, then the lowest ordinal") {
  const GpuLoad idle{0, 1000}, roomy{0, 2000}, busy{1, 9000};
  CHECK(idlest_gpu({gpu(0, idle), gpu(1, idle)}) == 0);
  CHECK(idlest_gpu({gpu(0, idle), gpu(1, roomy)}) == 1);
  CHECK(idlest_gpu({gpu(0, busy), gpu(1, idle), gpu(2, roomy)}) == 2);
  CHECK(idlest_gpu({gpu(0, busy), gpu(1, GpuLoad{7, 9500})}) == 1);  // all are busy
  CHECK(idlest_gpu({gpu(0), gpu(1)}) == 0);                          // nothing is known
  CHECK(idlest_gpu({gpu(0, busy), gpu(1)}) == 1);
}
