// A scripted stand-in for libnvidia-ml: see README.md beside this file. One process, one thread.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7;

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

// "busy1=2,free0=4096" in MOETUNE_FAKE_NVML.
unsigned long long scripted(const std::string& name, std::size_t device, unsigned long long fallback) {
  const char* const script = std::getenv("MOETUNE_FAKE_NVML");
  const std::string text = std::string(",") + (script != nullptr ? script : "");
  const std::string key = "," + name + std::to_string(device) + "=";
  const std::size_t at = text.find(key);
  return at == std::string::npos ? fallback : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Handles are ordinals plus one: the null pointer is none.
std::size_t ordinal_of(void* device) { return reinterpret_cast<std::size_t>(device) - 1; }

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
  memory->free = scripted("free", ordinal_of(device), 1ull << 30);
  memory->used = memory->total - memory->free;
  return kSuccess;
}

FAKE nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  const bool lists_this_one = scripted("lists", ordinal_of(device), 0) != 0;
  const unsigned others = static_cast<unsigned>(scripted("busy", ordinal_of(device), 0));
  const unsigned running = others + lists_this_one;
  const unsigned room = *count;
  *count = running;
  if (running > 0 && (processes == nullptr || room < running)) return kInsufficientSize;
  for (unsigned i = 0; i < others; ++i) processes[i] = {.pid = 1 + i, .used_bytes = 1 << 20};
  if (lists_this_one) processes[others] = {.pid = static_cast<unsigned>(getpid()), .used_bytes = 1 << 20};
  return kSuccess;
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
