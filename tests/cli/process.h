// Runs a program to its end or until it is killed, with its output in files. For tests: one owner, one
// thread.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/texts.h"
#include "tests/within_a_while.h"

extern char** environ;

namespace moetune::testing {

struct Ended {
  int code = -1;   // the exit code; -1 where a signal ended it
  int signal = 0;  // that signal
  std::string out, err;
  double seconds = 0;
};

class Process {
 public:
  // stdout and stderr go to `stem`.out and `stem`.err.
  Process(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
          const std::filesystem::path& stem)
      : out_(stem.string() + ".out"), err_(stem.string() + ".err") {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!environment.contains(text.substr(0, text.find('=')))) variables.push_back(text);
    }
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int error =
        posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, pointers(command).data(), pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("cannot start " + command[0]);
  }
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  // What stdout has so far.
  std::string output() const { return read_text(out_); }

  void send(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }

  // Whether stderr comes to hold `lines` lines. Does not wait for a process that has ended.
  bool says_lines(std::size_t lines) const {
    const auto has_them = [&] {
      const std::string text = read_text(err_);
      return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= lines;
    };
    within_a_while([&] { return has_them() || has_ended(); });
    return has_them();
  }

  // wait() is still to be called.
  bool has_ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }

  Ended wait() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("waitpid failed");
    pid_ = -1;
    Ended ended{.out = read_text(out_), .err = read_text(err_), .seconds = since(begin_)};
    if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
    return ended;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  }

  std::filesystem::path out_, err_;
  pid_t pid_ = -1;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace moetune::testing
