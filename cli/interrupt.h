// Ctrl-C as a stop request. While one lives, the first SIGINT or SIGTERM asks the stop token to stop, and the
// second ends the process at once. One at a time; the handlers do nothing but write to a pipe or _exit.
#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace moetune {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // 128 + the signal, as shells report it: 130 after Ctrl-C.
  static int exit_code();

 private:
  std::stop_source source_;
  int pipe_[2] = {-1, -1};
  struct sigaction old_int_ = {}, old_term_ = {};
  std::thread listener_;
};

}  // namespace moetune
