#include "tuner/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace moetune {
namespace {

struct SpawnAttributes {
  SpawnAttributes() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnAttributes() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

}  // namespace

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

void cannot_start(const std::string& call, int error) {
  throw BrokenEnvironment("cannot start a child process: " + call + ": " + std::strerror(error));
}

FileDescriptor above_child_descriptors(int fd) {
  FileDescriptor low(fd);
  FileDescriptor high(fcntl(fd, F_DUPFD_CLOEXEC, 16));
  if (high.get() < 0) cannot_start("fcntl", errno);
  return high;
}

pid_t spawn_child(const std::string& executable, std::vector<std::string> arguments, const std::vector<int>& files) {
  SpawnAttributes spawn;
  for (int file = 0; file < static_cast<int>(files.size()); ++file) {
    const int from = files[static_cast<std::size_t>(file)];
    if (from < 0) {
      posix_spawn_file_actions_addopen(&spawn.actions, file, "/dev/null", O_RDWR, 0);
    } else {
      posix_spawn_file_actions_adddup2(&spawn.actions, from, file);
    }
  }
  posix_spawn_file_actions_addclosefrom_np(&spawn.actions, static_cast<int>(files.size()));

  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  const std::string path = executable.empty() ? "/proc/self/exe" : executable;
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, path.c_str(), &spawn.actions, &spawn.attributes, pointers_of(arguments).data(), environ);
  if (error != 0) cannot_start("posix_spawn of " + path, error);
  return pid;
}

}  // namespace moetune
