#include "tuner/worker/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace moetune {
namespace {

// The few constants of NVML's stable ABI that are used here; its header is not in every toolkit.
constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1;
constexpr unsigned kClockMemory = 2;
constexpr unsigned kTemperatureGpu = 0;
constexpr unsigned long long kPowerCap = 0x4;
constexpr unsigned long long kHardwareSlowdown = 0x8;
constexpr unsigned long long kSoftwareThermal = 0x20;
constexpr unsigned long long kHardwareThermal = 0x40;
constexpr unsigned long long kPowerBrake = 0x80;
constexpr unsigned long long kSlowdown =
    kPowerCap | kHardwareSlowdown | kSoftwareThermal | kHardwareThermal | kPowerBrake;
constexpr int kInsufficientSize = 7;

// nvmlMemory_t and nvmlProcessInfo_t of the interface's third version.
struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

const char* library_name() {
  const char* const named = std::getenv("MOETUNE_LIBNVML");
  return named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1";
}

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  int (*shutdown)() = nullptr;
  int (*system_driver_version)(char*, unsigned) = nullptr;
  int (*handle_by_bus)(const char*, void**) = nullptr;
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*temperature)(void*, unsigned, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;          // milliwatts
  int (*mig_mode)(void*, unsigned*, unsigned*) = nullptr;  // now, and after a reset
  int (*ecc_mode)(void*, unsigned*, unsigned*) = nullptr;  // the same

  template <typename Function>
  void resolve(const char* name, Function& function) {
    if (function == nullptr) function = reinterpret_cast<Function>(dlsym(handle, name));
  }

  bool open() {
    handle = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    int (*init)() = nullptr;
    resolve("nvmlInit_v2", init);
    if (init == nullptr || init() != kSuccess) return false;
    resolve("nvmlShutdown", shutdown);
    resolve("nvmlSystemGetDriverVersion", system_driver_version);
    resolve("nvmlDeviceGetHandleByPciBusId_v2", handle_by_bus);
    resolve("nvmlDeviceGetClockInfo", clock);
    resolve("nvmlDeviceGetTemperature", temperature);
    resolve("nvmlDeviceGetCurrentClocksEventReasons", reasons);
    resolve("nvmlDeviceGetCurrentClocksThrottleReasons", reasons);
    resolve("nvmlDeviceGetMemoryInfo", memory);
    resolve("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    resolve("nvmlDeviceGetEnforcedPowerLimit", power_limit);
    resolve("nvmlDeviceGetMigMode", mig_mode);
    resolve("nvmlDeviceGetEccMode", ecc_mode);
    return true;
  }

  // nullopt if the list cannot be read. Processes may start between the two calls, hence the room for more.
  std::optional<std::vector<ProcessInfo>> compute_processes(void* device) const {
    unsigned count = 0;
    int result = processes(device, &count, nullptr);
    if (result != kSuccess && result != kInsufficientSize) return std::nullopt;
    std::vector<ProcessInfo> list(count + 16);
    count = static_cast<unsigned>(list.size());
    result = processes(device, &count, list.data());
    if (result != kSuccess) return std::nullopt;
    list.resize(std::min<std::size_t>(count, list.size()));
    return list;
  }

  ~Library() {
    if (shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
};

Nvml::Nvml(const std::string& pci_bus_id) {
  auto library = std::make_unique<Library>();
  if (!library->open()) return;
  library_ = std::move(library);
  if (library_->handle_by_bus != nullptr) library_->handle_by_bus(pci_bus_id.c_str(), &device_);
}

Nvml::~Nvml() = default;

Nvml::Reading Nvml::read() const {
  Reading reading;
  if (device_ == nullptr) return reading;
  unsigned value = 0;
  if (library_->clock != nullptr && library_->clock(device_, kClockSm, &value) == kSuccess) {
    reading.sm_clock_mhz = static_cast<int>(value);
  }
  if (library_->clock != nullptr && library_->clock(device_, kClockMemory, &value) == kSuccess) {
    reading.memory_clock_mhz = static_cast<int>(value);
  }
  if (library_->temperature != nullptr &&
      library_->temperature(device_, kTemperatureGpu, &value) == kSuccess) {
    reading.temperature_c = static_cast<int>(value);
  }
  unsigned long long reasons = 0;
  if (library_->reasons != nullptr && library_->reasons(device_, &reasons) == kSuccess) {
    reading.throttled = (reasons & kSlowdown) != 0;
  }
  return reading;
}

std::optional<GpuLoad> Nvml::load() const {
  if (device_ == nullptr || library_->memory == nullptr || library_->processes == nullptr)
    return std::nullopt;
  MemoryInfo memory;
  if (library_->memory(device_, &memory) != kSuccess) return std::nullopt;
  const std::optional<std::vector<ProcessInfo>> processes = library_->compute_processes(device_);
  if (!processes) return std::nullopt;
  const auto own = static_cast<unsigned>(getpid());
  const auto foreign = std::count_if(processes->begin(), processes->end(),
                                     [own](const ProcessInfo& process) { return process.pid != own; });
  return GpuLoad{.foreign_processes = static_cast<int>(foreign),
                 .free_bytes = static_cast<std::int64_t>(memory.free)};
}

std::optional<GpuSettings> Nvml::settings() const {
  if (device_ == nullptr) return std::nullopt;
  GpuSettings settings;
  unsigned value = 0, after_reset = 0;
  if (library_->power_limit != nullptr && library_->power_limit(device_, &value) == kSuccess)
    settings.power_limit_w = static_cast<int>((value + 500) / 1000);
  if (library_->mig_mode != nullptr && library_->mig_mode(device_, &value, &after_reset) == kSuccess)
    settings.mig = value != 0;
  if (library_->ecc_mode != nullptr && library_->ecc_mode(device_, &value, &after_reset) == kSuccess)
    settings.ecc = value != 0;
  return settings;
}

std::optional<int> Nvml::other_processes() const {
  if (device_ == nullptr || library_->processes == nullptr) return std::nullopt;
  const std::optional<std::vector<ProcessInfo>> processes = library_->compute_processes(device_);
  if (!processes) return std::nullopt;
  const auto own = static_cast<unsigned>(getpid());
  const bool listed = std::any_of(processes->begin(), processes->end(),
                                  [own](const ProcessInfo& process) { return process.pid == own; });
  return listed ? std::optional(static_cast<int>(processes->size()) - 1) : std::nullopt;
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  if (library_ == nullptr || library_->system_driver_version == nullptr) return "";
  return library_->system_driver_version(text, sizeof text) == kSuccess ? text : "";
}

}  // namespace moetune
