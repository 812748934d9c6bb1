// Follows NVTX 3 without its header, which few toolkits' minimal parts have: the tool's library gets tables of places,
// and puts its functions into those that it wants to be called.
#include "base/profiler_range.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/environment.h"
#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

using Place = void (*)();

constexpr int kCore = 1, kModules = 7;                                                 // NVTX_CB_MODULE_CORE, _SIZE
constexpr std::size_t kRangeStart = 5, kRangeEnd = 7, kRangePush = 9, kRangePop = 11;  // NVTX_CBID_CORE_...A
constexpr std::size_t kPlaces = 32;                                                    // of each module; none has more
constexpr std::uint32_t kCallbacks = 1, kVersion = 3;                                  // NVTX_ETID_...

std::array<std::array<Place, kPlaces>, kModules> places{};
std::array<std::array<Place*, kPlaces>, kModules> tables{};

int get_table(int module, Place*** table, unsigned* size) {
  if (module <= 0 || module >= kModules) return 0;
  const auto which = static_cast<std::size_t>(module);
  for (std::size_t i = 1; i < kPlaces; ++i) tables[which][i] = &places[which][i];
  if (table != nullptr) *table = tables[which].data();
  if (size != nullptr) *size = kPlaces;
  return 1;
}

struct Callbacks {
  std::size_t bytes = sizeof(Callbacks);
  int (*get_table)(int, Place***, unsigned*) = moetune::get_table;
};
struct Version {
  std::size_t bytes = sizeof(Version);
  std::uint32_t version = 3, reserved = 0;
  void (*set_tool_version)(std::uint32_t) = [](std::uint32_t) {};
};

const void* export_table(std::uint32_t id) {
  static constexpr Callbacks kTheCallbacks;
  static const Version the_version;
  if (id == kCallbacks) return &kTheCallbacks;
  return id == kVersion ? static_cast<const void*>(&the_version) : nullptr;
}

template <typename Function>
Function function_at(std::size_t place) {
  return reinterpret_cast<Function>(places[kCore][place]);
}

// Loads the tool that the environment names, which stays loaded.
void find_listener() {
  const char* const path = environment_variable("NVTX_INJECTION64_PATH");
  if (path == nullptr) return;
  try {
    require_regular_file(path);  // the loader would wait for a pipe
  } catch (const BadInput&) {
    return;
  }
  void* const library = dlopen(path, RTLD_LAZY);
  if (library == nullptr) return;
  using Initialize = int (*)(const void* (*)(std::uint32_t));
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(export_table) == 0) places = {};
}

}  // namespace

std::atomic<ProfilerRange::Push> ProfilerRange::push{&ProfilerRange::push_first};

int ProfilerRange::push_first(const char* name) {
  static std::once_flag once;
  std::call_once(once, [] {
    find_listener();
    const bool is_whole = function_at<Place>(kRangePush) != nullptr && function_at<Place>(kRangePop) != nullptr;
    push.store(is_whole ? function_at<Push>(kRangePush) : nullptr);
  });
  const Push found = push.load();
  return found != nullptr && name != nullptr ? found(name) : 0;
}

bool ProfilerRange::has_listener() {
  if (push.load() == &push_first) push_first(nullptr);
  return push.load() != nullptr;
}

void ProfilerRange::begin(const char* name) {
  if (!has_listener()) return;
  push.load()(name);
  is_open_ = true;
}

void ProfilerRange::end() { function_at<int (*)()>(kRangePop)(); }

void name_phase(const char* name) {
  thread_local std::uint64_t phase = 0;
  if (!ProfilerRange::has_listener()) return;
  const auto start = function_at<std::uint64_t (*)(const char*)>(kRangeStart);
  const auto end = function_at<void (*)(std::uint64_t)>(kRangeEnd);
  if (start == nullptr || end == nullptr) return;
  if (phase != 0) end(phase);
  phase = name != nullptr ? start(name) : 0;
}

}  // namespace moetune
