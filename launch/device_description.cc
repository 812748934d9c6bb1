// Describes each device as the driver does, before any context exists.
#include "base/format.h"
#include "launch/driver.h"
#include "launch/driver_symbols.h"

namespace moetune::cuda {
namespace {

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(cu.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute(" + std::to_string(which) + ")");
  return value;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
  return text;
}

}  // namespace

int device_count() {
  int count = 0;
  check(cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

std::string driver_version() {
  int version = 0;
  check(cu.cuDriverGetVersion(&version), "cuDriverGetVersion");
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceInfo describe_device(int ordinal) {
  CUdevice device = 0;
  check(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet(" + std::to_string(ordinal) + ")");
  char name[256] = {};
  check(cu.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  char bus[64] = {};
  check(cu.cuDeviceGetPCIBusId(bus, sizeof bus, device), "cuDeviceGetPCIBusId");
  CUuuid uuid = {};
  check(cu.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  std::size_t memory = 0;
  check(cu.cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");

  DeviceInfo info;
  DeviceLimits& limits = info.limits;
  limits.compute_capability = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  limits.sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  limits.shared_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  limits.shared_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  limits.registers_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  limits.threads_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  limits.l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  limits.memory_bytes = static_cast<std::int64_t>(memory);

  info.id = "cuda:" + std::to_string(ordinal);
  info.pci_bus_id = bus;
  info.uuid = uuid_text(uuid);
  info.architecture = architecture_name(limits.compute_capability);
  info.key.name = name;
  info.key.compute_capability = limits.compute_capability;
  info.key.sm_count = limits.sm_count;
  info.key.l2_bytes = limits.l2_bytes;
  info.key.memory_bytes = limits.memory_bytes;
  info.key.sm_clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.key.memory_clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.key.driver = driver_version();
  info.memory_bus_bits = attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  return info;
}

}  // namespace moetune::cuda
