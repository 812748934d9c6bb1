// Bounds the memory of this process's child processes: one that holds more than its limit is killed, which ends its
// candidate, and not the host. The virtual limits of the kernel do not serve, because CUDA reserves far more than it
// uses.
//
// Owns a thread, which calls `ended` with one sentence for each process that it killed. Needs Linux' /proc; where that
// says nothing, nothing is killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace moetune {

class MemoryWatch {
 public:
  // `bytes`: anonymous resident memory of one process.
  MemoryWatch(std::uint64_t bytes, std::function<void(const std::string& sentence)> ended,
              std::chrono::milliseconds every = std::chrono::milliseconds(250));

 private:
  void check(pid_t child) const;
  void watch(std::stop_token stop, std::chrono::milliseconds every) const;

  const std::uint64_t bytes_;
  const std::function<void(const std::string&)> ended_;
  std::jthread thread_;  // last: it uses all of the above
};

// The children of this process, whichever of its threads started them.
std::vector<pid_t> child_processes();

}  // namespace moetune
