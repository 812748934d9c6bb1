#include "cli/pager.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

extern char** environ;

#include "base/environment.h"

namespace moetune {
namespace {

// "" for none.
std::string pager_command() {
  const char* const named = environment_variable("PAGER");
  const char* const term = environment_variable("TERM");
  if (term == nullptr || std::strcmp(term, "dumb") == 0) return "";
  if (named == nullptr) return "command -v less >/dev/null && exec less || exec cat";
  return std::strcmp(named, "cat") == 0 ? "" : named;
}

// LESS as git sets it, unless the user has: end on one screen, show colours, leave the text on the screen.
std::vector<std::string> variables() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  if (environment_variable("LESS") == nullptr) all.emplace_back("LESS=FRX");
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Pager::Pager(const Output& output) {
  const std::string command = output.has_screen() ? pager_command() : "";
  int ends[2] = {-1, -1};
  if (command.empty() || pipe2(ends, O_CLOEXEC) != 0) return;
  std::cout.flush();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawnattr_t attributes;  // the signals that this process blocks for itself are the pager's to take
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = {"sh", "-c", command}, environment = variables();
  if (posix_spawn(&child_, "/bin/sh", &actions, &attributes, pointers(words).data(), pointers(environment).data()) != 0)
    child_ = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (child_ > 0) {
    screen_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(ends[1], STDOUT_FILENO);
    signal(SIGPIPE, SIG_IGN);  // a reader who leaves the pager early has read enough
  }
  close(ends[0]);
  close(ends[1]);
}

Pager::~Pager() {
  if (child_ <= 0) return;
  std::cout.flush();
  std::cout.clear();
  dup2(screen_, STDOUT_FILENO);  // and so closes the pager's pipe
  close(screen_);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  signal(SIGPIPE, SIG_DFL);
}

}  // namespace moetune
