#include "tests/fake_cuda/devices.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {

namespace {

// "slices=3": one GPU in so many slices, of which a process sees the one that CUDA_VISIBLE_DEVICES names by its UUID,
// without it the first. -1 if there is none of that name.
int visible_slice() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || *visible == '\0') return 0;
  unsigned number = 0;
  const bool named = std::sscanf(visible, "MIG-%2xababab-", &number) == 1;
  return named && number < machine.script.number("slices", 0) ? static_cast<int>(number) : -1;
}

}  // namespace

CUresult device_get_count(int* count) {
  const bool has_slices = machine.script.has("slices");
  *count = has_slices ? visible_slice() >= 0 : static_cast<int>(machine.script.number("devices", 1));
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int size, CUdevice device) {
  if (machine.script.has("name")) {
    std::snprintf(name, static_cast<std::size_t>(size), "%s", machine.script.text("name").c_str());
  } else if (machine.script.has("same") || device < machine.script.number("alike", 0)) {
    std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU");
  } else {
    std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  }
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute which, CUdevice device) {
  static const std::map<int, int> values = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                                            {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
                                            {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
                                            {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                                            {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
                                            {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
                                            {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
                                            {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
                                            {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1'000'000},
                                            {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2'000'000},
                                            {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120}};
  static const std::map<int, const char*> scripted = {{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "bus"},
                                                      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "sms"}};
  const auto directive = scripted.find(which);
  const auto usual =
      directive != scripted.end() ? machine.script.number(directive->second, values.at(which)) : values.at(which);
  const std::string name = "attribute" + std::to_string(device) + "." + std::to_string(which);
  *value = static_cast<int>(machine.script.number(name, usual));
  return CUDA_SUCCESS;
}

CUresult device_total_mem(std::size_t* bytes, CUdevice) {
  *bytes = machine.memory_bytes();
  return CUDA_SUCCESS;
}

CUresult device_get_pci_bus_id(char* text, int size, CUdevice device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device);
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0xab, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<char>(machine.script.has("slices") ? visible_slice() : device);
  return CUDA_SUCCESS;
}

}  // namespace fake_cuda
