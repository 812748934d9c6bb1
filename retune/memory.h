// Whether there is memory enough for a workload, on the GPU and on the host, and waiting for it. A night yields to
// whoever serves on the same machine.
//
// Free functions; reading needs Linux' /proc and /sys. What the system does not tell is no shortage.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "kernels/kernel.h"

namespace moetune {

struct MemoryNeed {
  std::int64_t gpu_bytes = 0, host_bytes = 0;
};

struct MemoryFree {
  std::optional<std::int64_t> gpu_bytes, host_bytes;
};

// The memory for tuning a problem: its tensors once and some room on the GPU; the worker and compilers on the host.
MemoryNeed memory_need(const Kernel& kernel, const Problem& problem, std::int64_t gpu_total_bytes);

// The least of what the machine has available and what the process's control groups (version 1 or 2) leave. `root` is
// "/" but in tests.
std::optional<std::int64_t> free_host_memory(const std::filesystem::path& root = "/");

// One sentence, or "" if there is enough. A need that the whole GPU could not meet is not waited for.
std::string memory_shortage(const MemoryNeed& need, const MemoryFree& free, std::int64_t gpu_total_bytes);

// Asks `shortage` again and again until it is "", for at most `patience_s`; calls `say` once, with the first shortage.
// Returns the shortage that has remained, or "". Ends at once at a stop request.
std::string wait_for_memory(const std::function<std::string()>& shortage, double patience_s,
                            const std::stop_token& stop, const std::function<void(const std::string&)>& say,
                            std::chrono::milliseconds pause = std::chrono::milliseconds(2000));

}  // namespace moetune
