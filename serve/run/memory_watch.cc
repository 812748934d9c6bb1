#include "serve/run/memory_watch.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "base/format.h"

namespace moetune {
namespace {

constexpr double kGiBytes = 1024.0 * 1024 * 1024;

struct ChildUse {
  pid_t parent = 0;
  std::uint64_t bytes = 0;
};

// nullopt for a process that is gone.
std::optional<ChildUse> use_of(pid_t child) {
  std::ifstream file("/proc/" + std::to_string(child) + "/status");
  ChildUse use;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t number = 0;
    if (!(words >> name >> number)) continue;
    if (name == "PPid:") use.parent = static_cast<pid_t>(number);
    if (name == "RssAnon:") use.bytes = number << 10;
  }
  return use.parent > 0 ? std::optional(use) : std::nullopt;
}

}  // namespace

std::vector<pid_t> child_processes() {
  std::vector<pid_t> children;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

MemoryWatch::MemoryWatch(std::uint64_t bytes, std::function<void(const std::string&)> ended,
                         std::chrono::milliseconds every)
    : bytes_(bytes),
      ended_(std::move(ended)),
      thread_([this, every](std::stop_token stop) { watch(std::move(stop), every); }) {}

// By a descriptor, so that no process is killed which has the number of one that ended meanwhile.
void MemoryWatch::check(pid_t child) const {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (process < 0) return;
  const std::optional<ChildUse> use = use_of(child);
  const bool is_ours = use && use->parent == ::getpid();
  const bool killed =
      is_ours && use->bytes > bytes_ && ::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0) == 0;
  ::close(process);
  if (!killed) return;
  ended_(format("A worker or compiler was killed: it held %.2f GiB, and one may hold %.2f GiB.",
                static_cast<double>(use->bytes) / kGiBytes, static_cast<double>(bytes_) / kGiBytes));
}

void MemoryWatch::watch(std::stop_token stop, std::chrono::milliseconds every) const {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, stop, every, [&] { return stop.stop_requested(); })) {
    if (stop.stop_requested()) return;
    for (const pid_t child : child_processes()) check(child);
  }
}

}  // namespace moetune
