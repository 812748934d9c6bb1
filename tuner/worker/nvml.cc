#include "tuner/worker/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>
#include <vector>

#include "base/environment.h"

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
struct Slice {
  static constexpr unsigned kNone = 0xFFFFFFFF;
  unsigned gpu_instance = kNone, compute_instance = kNone;  // kNone where it is not known
  bool operator==(const Slice&) const = default;
};
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long used_bytes = 0;
  Slice slice;
};

// nvmlPciInfo_t of the third version.
struct PciInfo {
  char legacy_id[16] = {};
  unsigned domain = 0, bus = 0, device = 0, device_id = 0, subsystem_id = 0;
  char id[32] = {};
  auto place() const { return std::tuple(domain, bus, device); }
};

constexpr unsigned kMostLinks = 36;                     // that are asked for; Hopper has 18
constexpr unsigned kNvlinkSwitch = 2, kOverNvlink = 2;  // a link's other end; what P2P goes over
constexpr int kNotSupported = 3;

// Between GPUs without NVLink, as nvidia-smi names it.
struct Ancestor {
  unsigned level;
  const char* name;
};
constexpr Ancestor kAncestors[] = {{0, "board"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};

// "" if what was named cannot be opened without waiting.
std::string library_name() {
  const char* const named = environment_variable("MOETUNE_LIBNVML");
  if (named == nullptr) return "libnvidia-ml.so.1";
  std::error_code absent;
  const std::filesystem::file_status status = std::filesystem::status(named, absent);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) ? "" : named;
}

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  int (*shutdown)() = nullptr;
  int (*system_driver_version)(char*, unsigned) = nullptr;
  int (*handle_by_bus)(const char*, void**) = nullptr;
  int (*handle_by_uuid)(const char*, void**) = nullptr;
  int (*gpu_instance)(void*, unsigned*) = nullptr;      // of a slice's handle
  int (*compute_instance)(void*, unsigned*) = nullptr;  // the same
  int (*clock)(void*, unsigned, unsigned*) = nullptr;
  int (*temperature)(void*, unsigned, unsigned*) = nullptr;
  int (*reasons)(void*, unsigned long long*) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*power_limit)(void*, unsigned*) = nullptr;          // milliwatts
  int (*mig_mode)(void*, unsigned*, unsigned*) = nullptr;  // now, and after a reset
  int (*ecc_mode)(void*, unsigned*, unsigned*) = nullptr;  // the same
  int (*link_state)(void*, unsigned, unsigned*) = nullptr;
  int (*link_end)(void*, unsigned, unsigned*) = nullptr;
  int (*link_end_pci)(void*, unsigned, PciInfo*) = nullptr;
  int (*pci)(void*, PciInfo*) = nullptr;
  int (*peer_status)(void*, void*, unsigned, unsigned*) = nullptr;
  int (*common_ancestor)(void*, void*, unsigned*) = nullptr;

  template <typename Function>
  void resolve(const char* name, Function& function) {
    if (function == nullptr) function = reinterpret_cast<Function>(dlsym(handle, name));
  }

  bool open() {
    const std::string name = library_name();
    handle = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    int (*init)() = nullptr;
    resolve("nvmlInit_v2", init);
    if (init == nullptr || init() != kSuccess) return false;
    resolve("nvmlShutdown", shutdown);
    resolve("nvmlSystemGetDriverVersion", system_driver_version);
    resolve("nvmlDeviceGetHandleByPciBusId_v2", handle_by_bus);
    resolve("nvmlDeviceGetHandleByUUID", handle_by_uuid);
    resolve("nvmlDeviceGetGpuInstanceId", gpu_instance);
    resolve("nvmlDeviceGetComputeInstanceId", compute_instance);
    resolve("nvmlDeviceGetClockInfo", clock);
    resolve("nvmlDeviceGetTemperature", temperature);
    resolve("nvmlDeviceGetCurrentClocksEventReasons", reasons);
    resolve("nvmlDeviceGetCurrentClocksThrottleReasons", reasons);
    resolve("nvmlDeviceGetMemoryInfo", memory);
    resolve("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    resolve("nvmlDeviceGetEnforcedPowerLimit", power_limit);
    resolve("nvmlDeviceGetMigMode", mig_mode);
    resolve("nvmlDeviceGetEccMode", ecc_mode);
    resolve("nvmlDeviceGetNvLinkState", link_state);
    resolve("nvmlDeviceGetNvLinkRemoteDeviceType", link_end);
    resolve("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_end_pci);
    resolve("nvmlDeviceGetPciInfo_v3", pci);
    resolve("nvmlDeviceGetP2PStatus", peer_status);
    resolve("nvmlDeviceGetTopologyCommonAncestor", common_ancestor);
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

  // The links that are up; nullopt if that is unknown.
  std::optional<std::vector<unsigned>> links_up(void* device) const {
    if (device == nullptr || link_state == nullptr) return std::nullopt;
    std::vector<unsigned> up;
    bool known = false;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned is_up = 0;
      const int result = link_state(device, link, &is_up);
      known = known || result == kSuccess || result == kNotSupported;
      if (result == kSuccess && is_up != 0) up.push_back(link);
    }
    return known ? std::optional(up) : std::nullopt;
  }

  int links_to_switches(void* device) const {
    int count = 0;
    for (const unsigned link : links_up(device).value_or(std::vector<unsigned>())) {
      unsigned end = 0;
      count += link_end != nullptr && link_end(device, link, &end) == kSuccess && end == kNvlinkSwitch;
    }
    return count;
  }

  // Directly, or as many as both have to switches; nullopt if unknown.
  std::optional<int> links_between(void* device, void* other) const {
    PciInfo wanted;
    int count = 0;
    if (pci != nullptr && link_end_pci != nullptr && pci(other, &wanted) == kSuccess) {
      for (const unsigned link : links_up(device).value_or(std::vector<unsigned>())) {
        PciInfo end;
        count += link_end_pci(device, link, &end) == kSuccess && end.place() == wanted.place();
      }
    }
    if (count == 0) count = std::min(links_to_switches(device), links_to_switches(other));
    return count > 0 ? std::optional(count) : std::nullopt;
  }

  // The processes of a list that share a slice with this one; nullopt if the slice is not known.
  std::optional<Slice> slice_of(void* device) const {
    Slice slice;
    if (device == nullptr || gpu_instance == nullptr || compute_instance == nullptr) return std::nullopt;
    if (gpu_instance(device, &slice.gpu_instance) != kSuccess ||
        compute_instance(device, &slice.compute_instance) != kSuccess)
      return std::nullopt;
    return slice;
  }

  ~Library() {
    if (shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
};

Nvml::Nvml(const std::string& pci_bus_id, const std::string& uuid) {
  auto library = std::make_unique<Library>();
  if (!library->open()) return;
  library_ = std::move(library);
  if (library_->handle_by_bus != nullptr) library_->handle_by_bus(pci_bus_id.c_str(), &device_);
  if (library_->handle_by_uuid == nullptr || uuid.size() < 4) return;
  if (library_->handle_by_uuid(("MIG" + uuid.substr(3)).c_str(), &slice_) != kSuccess) slice_ = nullptr;
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
  if (library_->temperature != nullptr && library_->temperature(device_, kTemperatureGpu, &value) == kSuccess) {
    reading.temperature_c = static_cast<int>(value);
  }
  unsigned long long reasons = 0;
  if (library_->reasons != nullptr && library_->reasons(device_, &reasons) == kSuccess) {
    reading.throttled = (reasons & kSlowdown) != 0;
  }
  return reading;
}

std::optional<GpuLoad> Nvml::load() const {
  if (device_ == nullptr || library_->memory == nullptr || library_->processes == nullptr) return std::nullopt;
  MemoryInfo memory;
  if (library_->memory(slice_ != nullptr ? slice_ : device_, &memory) != kSuccess) return std::nullopt;
  const std::optional<Others> others = this->others();
  if (!others) return std::nullopt;
  return GpuLoad{.foreign_processes = others->foreign, .free_bytes = static_cast<std::int64_t>(memory.free)};
}

// A whole GPU's list names the slice of each process; it is asked where a slice's own list is not there.
std::optional<Nvml::Others> Nvml::others() const {
  std::optional<std::vector<ProcessInfo>> processes;
  for (void* const device : {slice_, device_}) {
    if (device != nullptr && !processes) processes = library_->compute_processes(device);
  }
  if (!processes) return std::nullopt;
  const auto own = static_cast<unsigned>(getpid());
  const auto mine = std::find_if(processes->begin(), processes->end(),
                                 [own](const ProcessInfo& process) { return process.pid == own; });
  Others others{.lists_this_one = mine != processes->end()};
  std::optional<Slice> slice = library_->slice_of(slice_);
  if (!slice && others.lists_this_one) slice = mine->slice;
  for (const ProcessInfo& process : *processes) {
    const bool is_apart = slice && process.slice.gpu_instance != Slice::kNone && process.slice != *slice;
    if (process.pid != own && !is_apart) ++others.foreign;
  }
  return others;
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
  const std::optional<Others> others = this->others();
  return others && others->lists_this_one ? std::optional(others->foreign) : std::nullopt;
}

std::optional<int> Nvml::nvlinks() const {
  if (device_ == nullptr) return std::nullopt;
  const std::optional<std::vector<unsigned>> up = library_->links_up(device_);
  return up ? std::optional(static_cast<int>(up->size())) : std::nullopt;
}

Nvml::Path Nvml::path_to(const Nvml& other) const {
  if (device_ == nullptr || other.device_ == nullptr) return {};
  unsigned status = 1, level = 0;
  if (library_->peer_status != nullptr &&
      library_->peer_status(device_, other.device_, kOverNvlink, &status) == kSuccess && status == 0) {
    const std::optional<int> links = library_->links_between(device_, other.device_);
    return {"NV" + (links ? std::to_string(*links) : ""), links};
  }
  if (library_->common_ancestor == nullptr || library_->common_ancestor(device_, other.device_, &level) != kSuccess)
    return {};
  for (const Ancestor& ancestor : kAncestors) {
    if (ancestor.level == level) return {ancestor.name, 0};
  }
  return {};
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  if (library_ == nullptr || library_->system_driver_version == nullptr) return "";
  return library_->system_driver_version(text, sizeof text) == kSuccess ? text : "";
}

}  // namespace moetune
