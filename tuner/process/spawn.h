// Starts child processes with exactly the descriptors they are given. Free functions; thread-safe. Errors:
// BrokenEnvironment if no process can be started.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tuner/process/protocol.h"

namespace moetune {

// Points to each, with a null behind them, as posix_spawn takes arguments and variables.
std::vector<char*> pointers_of(std::vector<std::string>& texts);

[[noreturn]] void cannot_start(const std::string& call, int error);

// Moves a descriptor, which it owns from now on, above those that a child's own will be put on.
FileDescriptor above_child_descriptors(int fd);

// In a process group of its own, so that Ctrl-C on the terminal reaches the parent alone; with default signals. Its
// descriptor i is files[i], or /dev/null for -1, and it has no other. `executable` empty: this one.
pid_t spawn_child(const std::string& executable, std::vector<std::string> arguments, const std::vector<int>& files);

}  // namespace moetune
