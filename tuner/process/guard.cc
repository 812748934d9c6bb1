#include "tuner/process/guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace moetune {
namespace {

constexpr std::chrono::seconds kKillPatience{5};  // for processes that a driver holds in the kernel

// 0 if the process is gone.
pid_t parent_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos || name_end + 4 > text.size()) return 0;
  return std::atoi(text.c_str() + name_end + 4);  // behind ") S "
}

std::vector<pid_t> guarded_children() {
  std::vector<pid_t> children;
  DIR* const folder = opendir("/proc");
  if (folder == nullptr) return children;
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string::npos && parent_of(name) == getpid())
      children.push_back(std::atoi(name.c_str()));
  }
  closedir(folder);
  return children;
}

// A child that is not yet reaped keeps its number, so what is killed here is what was found. What it leaves behind
// becomes a child in turn.
void kill_descendants(pid_t shell, int& status) {
  const auto limit = std::chrono::steady_clock::now() + kKillPatience;
  kill(-shell, SIGKILL);
  while (std::chrono::steady_clock::now() < limit) {
    for (const pid_t child : guarded_children()) kill(child, SIGKILL);
    int ended = 0;
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, &ended, WNOHANG)) > 0) {
      if (reaped == shell) status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    }
    if (reaped < 0 && errno == ECHILD) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The shell's number goes to the parent before the program may do anything: also to its guard.
pid_t start_shell(const char* command, int socket, const sigset_t& mask) {
  const pid_t shell = fork();
  if (shell != 0) {
    setpgid(shell, shell);  // here too: whoever comes first
    return shell;
  }
  setpgid(0, 0);
  const pid_t self = getpid();
  if (send(socket, &self, sizeof self, MSG_NOSIGNAL) != sizeof self) _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // should somebody kill the guard
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execl("/bin/sh", "sh", "-c", command, nullptr);
  _exit(127);
}

// Until the shell ends, or the socket closes. Whether the shell ended.
bool watch_shell(pid_t shell, int socket, int signals) {
  while (true) {
    std::array<pollfd, 2> files = {pollfd{socket, POLLIN, 0}, pollfd{signals, POLLIN, 0}};
    if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return false;
    if (files[0].revents != 0) return false;
    signalfd_siginfo signal = {};
    if (files[1].revents == 0 || read(signals, &signal, sizeof signal) < 0) continue;
    siginfo_t ended = {};
    if (waitid(P_PID, static_cast<id_t>(shell), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == shell)
      return true;
  }
}

int guard(int socket, const char* command) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const int signals = signalfd(-1, &blocked, SFD_CLOEXEC);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return 126;
  const pid_t shell = start_shell(command, socket, before);
  if (shell < 0) return 126;
  close(STDIN_FILENO);  // they are the program's: its parent must see it close them
  close(STDOUT_FILENO);
  int status = 0;
  const bool ended = watch_shell(shell, socket, signals);
  kill_descendants(shell, status);
  return ended ? status : 0;
}

}  // namespace

bool is_guard_call(int argc, char** argv, int& status) {
  if (argc != 5 || std::string_view(argv[1]) != "guard" || std::string_view(argv[2]) != "--fd") return false;
  status = guard(std::atoi(argv[3]), argv[4]);
  return true;
}

}  // namespace moetune
