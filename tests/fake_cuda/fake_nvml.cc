// A scripted stand-in for libnvidia-ml: see README.md beside this file. One process, one thread.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7, kInvalidArgument = 2,
              kUnknown = 999;
constexpr unsigned long long kNobody = 200;  // a bus where no GPU is

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

// "busy1=2,free0=4096" in MOETUNE_FAKE_NVML.
unsigned long long scripted(const std::string& name, std::size_t device, unsigned long long default_value) {
  const char* const script = std::getenv("MOETUNE_FAKE_NVML");
  const std::string text = std::string(",") + (script != nullptr ? script : "");
  const std::string key = "," + name + std::to_string(device) + "=";
  const std::size_t at = text.find(key);
  return at == std::string::npos ? default_value : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Handles are ordinals plus one: the null pointer is none. Slices have handles above kSlices.
constexpr std::size_t kSlices = 1000;
std::size_t ordinal_of(void* device) { return reinterpret_cast<std::size_t>(device) - 1; }
bool is_slice(void* device) { return ordinal_of(device) >= kSlices; }
// All slices are GPU 0's.
std::size_t gpu_of(void* device) { return is_slice(device) ? 0 : ordinal_of(device); }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int

FAKE nvmlInit_v2() { return kSuccess; }
FAKE nvmlShutdown() { return kSuccess; }

FAKE nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned ordinal = 0;
  if (std::sscanf(bus, "0000:%x:00.0", &ordinal) != 1) return kNotFound;
  *device = reinterpret_cast<void*>(static_cast<std::size_t>(ordinal) + 1);
  return kSuccess;
}

FAKE nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 1ull << 40;
  memory->free = scripted(is_slice(device) ? "slicefree" : "free", ordinal_of(device) % kSlices, 1ull << 30);
  memory->used = memory->total - memory->free;
  return kSuccess;
}

FAKE nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  if (is_slice(device) && scripted("opaque", ordinal_of(device) % kSlices, 0) != 0) return kNotSupported;
  const std::size_t gpu = gpu_of(device);
  const bool lists_this_one = scripted("lists", gpu, 0) != 0;
  const unsigned others = static_cast<unsigned>(scripted("busy", gpu, 0));
  const unsigned running = others + lists_this_one;
  const unsigned room = *count;
  *count = running;
  if (running > 0 && (processes == nullptr || room < running)) return kInsufficientSize;
  // "apart0=2": the first two of them compute in slice 9, the others in slice 0; "own0=1": this one in slice 1.
  const std::size_t apart = scripted("apart", gpu, 0);
  const unsigned none = 0xFFFFFFFF, own = static_cast<unsigned>(scripted("own", gpu, none));
  for (unsigned i = 0; i < others; ++i)
    processes[i] = {1 + i, 1 << 20, i < apart ? 9u : own == none ? none : 0, own == none && apart == 0 ? none : 0};
  if (lists_this_one) processes[others] = {static_cast<unsigned>(getpid()), 1 << 20, own, own == none ? none : 0};
  return kSuccess;
}

// "slices0=3": GPU 0 is divided in three, whose UUIDs are those of tests/fake_cuda/devices.cc.
FAKE nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  unsigned number = 0;
  if (std::sscanf(uuid, "MIG-%2xababab-", &number) != 1 || number >= scripted("slices", 0, 0)) return kNotFound;
  *device = reinterpret_cast<void*>(kSlices + number + 1);
  return kSuccess;
}

FAKE nvmlDeviceGetGpuInstanceId(void* device, unsigned* id) {
  *id = static_cast<unsigned>(ordinal_of(device) % kSlices);
  return is_slice(device) ? kSuccess : kNotSupported;
}

FAKE nvmlDeviceGetComputeInstanceId(void* device, unsigned* id) {
  *id = 0;
  return is_slice(device) ? kSuccess : kNotSupported;
}

// "sm0=1500,mem0=2600,celsius0=61,slowed0=4": clocks in MHz, a temperature, reasons for lower clocks; else unsupported.
int read_script(const char* name, void* device, unsigned long long& value) {
  constexpr unsigned long long kUnset = ~0ull;
  value = scripted(name, ordinal_of(device), kUnset);
  return value == kUnset ? kNotSupported : kSuccess;
}

FAKE nvmlDeviceGetClockInfo(void* device, unsigned which, unsigned* mhz) {
  unsigned long long value = 0;
  const int result =
      which == 1 || which == 2 ? read_script(which == 1 ? "sm" : "mem", device, value) : kInvalidArgument;
  if (result == kSuccess) *mhz = static_cast<unsigned>(value);
  return result;
}

FAKE nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  unsigned long long value = 0;
  const int result = sensor == 0 ? read_script("celsius", device, value) : kInvalidArgument;
  if (result == kSuccess) *celsius = static_cast<unsigned>(value);
  return result;
}

FAKE nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  unsigned long long value = 0;
  const int result = read_script("slowed", device, value);
  if (result == kSuccess) *reasons = value;
  return result;
}

// "power0=700000,mig0=1,ecc0=0": milliwatts and switches; a card without ECC ("ecc0=9") says that it has none.
FAKE nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = static_cast<unsigned>(scripted("power", ordinal_of(device), 500'000));
  return kSuccess;
}

FAKE nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* after_reset) {
  *now = *after_reset = static_cast<unsigned>(scripted("mig", ordinal_of(device), 0));
  return kSuccess;
}

FAKE nvmlDeviceGetEccMode(void* device, unsigned* now, unsigned* after_reset) {
  *now = *after_reset = static_cast<unsigned>(scripted("ecc", ordinal_of(device), 1));
  return *now == 9 ? kNotSupported : kSuccess;
}

// "links0=18": NVLinks of GPU 0 that are up, to switches, or with "direct" as name of a GPU (direct0=1) to that one;
// "down0=1": one more is there and not up. "ancestor0=50": what is between GPU 0 and others; "nolinks0=1": this NVML
// does not know.
FAKE nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  if (scripted("nolinks", ordinal_of(device), 0) != 0) return kUnknown;
  const auto links = scripted("links", ordinal_of(device), 0);
  *up = link < links;
  if (links == 0) return kNotSupported;
  return link < links + scripted("down", ordinal_of(device), 0) ? kSuccess : kInvalidArgument;
}

FAKE nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned, unsigned* type) {
  *type = scripted("direct", ordinal_of(device), kNobody) == kNobody ? 2 : 0;
  return kSuccess;
}

FAKE nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  *info = {};
  info->bus = static_cast<unsigned>(ordinal_of(device));
  return kSuccess;
}

FAKE nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, PciInfo* info) {
  *info = {};
  info->bus = static_cast<unsigned>(scripted("direct", ordinal_of(device), kNobody));
  return kSuccess;
}

FAKE nvmlDeviceGetP2PStatus(void* device, void* other, unsigned over, unsigned* status) {
  const bool both = scripted("links", ordinal_of(device), 0) > 0 && scripted("links", ordinal_of(other), 0) > 0;
  *status = over == 2 && both ? 0 : 5;
  return kSuccess;
}

FAKE nvmlDeviceGetTopologyCommonAncestor(void* device, void*, unsigned* level) {
  *level = static_cast<unsigned>(scripted("ancestor", ordinal_of(device), 30));
  return scripted("nolinks", ordinal_of(device), 0) != 0 ? kUnknown : kSuccess;
}
