#include "retune/memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/format.h"

namespace moetune {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::int64_t kHostNeed = std::int64_t{512} << 20;
constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;  // version 1 writes "no limit" as a number near 2^63

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// The value of a line "NAME 123" or "NAME: 123 kB", in bytes.
std::optional<std::int64_t> field_in(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string field, unit;
    std::int64_t value = 0;
    if (!(words >> field >> value) || (field != name && field != name + ":")) continue;
    words >> unit;
    return unit == "kB" ? value << 10 : value;
  }
  return std::nullopt;
}

// Limit less use; files that can be dropped from memory count as free.
std::optional<std::int64_t> left_in_group(const std::filesystem::path& folder, const char* limit_name,
                                          const char* use_name, const char* droppable_name) {
  const auto limit = number_in(folder / limit_name), use = number_in(folder / use_name);
  if (!limit || !use || *limit >= kUnlimited) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - *use + field_in(folder / "memory.stat", droppable_name).value_or(0));
}

void take_least(std::optional<std::int64_t>& least, const std::optional<std::int64_t>& other) {
  if (other && (!least || *other < *least)) least = other;
}

// The process's groups: "0::/user.slice/x" of version 2, "9:memory:/x" of version 1.
std::filesystem::path group_of(const std::filesystem::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) != controller) continue;
    return std::filesystem::path(line.substr(second + 1)).relative_path();
  }
  return {};
}

}  // namespace

MemoryNeed memory_need(const Kernel& kernel, const Problem& problem, std::int64_t gpu_total_bytes) {
  const auto tensors = static_cast<std::int64_t>(kernel.cost(problem).bytes());
  return {.gpu_bytes = tensors + tensors / 10 + gpu_total_bytes / 16, .host_bytes = kHostNeed};
}

std::optional<std::int64_t> free_host_memory(const std::filesystem::path& root) {
  std::optional<std::int64_t> least = field_in(root / "proc/meminfo", "MemAvailable");
  const std::filesystem::path groups = root / "sys/fs/cgroup";
  for (std::filesystem::path group = group_of(root, "");; group = group.parent_path()) {
    take_least(least, left_in_group(groups / group, "memory.max", "memory.current", "inactive_file"));
    if (group.empty()) break;
  }
  for (std::filesystem::path group = group_of(root, "memory");; group = group.parent_path()) {
    take_least(least, left_in_group(groups / "memory" / group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "total_inactive_file"));
    if (group.empty()) break;
  }
  return least;
}

std::string memory_shortage(const MemoryNeed& need, const MemoryFree& free, std::int64_t gpu_total_bytes) {
  const auto sentence = [](const char* where, std::int64_t there, std::int64_t wanted) {
    return format("%s has %.2f GiB free and this workload takes %.2f GiB", where, static_cast<double>(there) / kGiB,
                  static_cast<double>(wanted) / kGiB);
  };
  const bool can_ever = need.gpu_bytes <= gpu_total_bytes;
  if (can_ever && free.gpu_bytes && *free.gpu_bytes < need.gpu_bytes)
    return sentence("the GPU", *free.gpu_bytes, need.gpu_bytes);
  if (free.host_bytes && *free.host_bytes < need.host_bytes)
    return sentence("the host", *free.host_bytes, need.host_bytes);
  return "";
}

std::string wait_for_memory(const std::function<std::string()>& shortage, double patience_s,
                            const std::stop_token& stop, const std::function<void(const std::string&)>& say,
                            std::chrono::milliseconds pause) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::string why = shortage();
  if (!why.empty()) say(why);
  while (!why.empty() && !stop.stop_requested()) {
    const double left_s = patience_s - std::chrono::duration<double>(Clock::now() - begin).count();
    if (left_s <= 0) break;
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(pause, std::chrono::duration<double>(left_s)));
    why = shortage();
  }
  return why;
}

}  // namespace moetune
