// Ctrl-C as a stop request. While one lives, the first SIGINT or SIGTERM asks the stop token to stop, and the
// second ends the process at once. A signal that was ignored already (nohup, a shell's background job) stays
// ignored.
//
// Both signals are blocked in the constructing thread, and so in all that it starts, and taken by a thread of
// its own.
// One at a time; made before any other thread, destroyed where it was made.
#pragma once

#include <atomic>
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
  int exit_code() const { return 128 + received_.load(); }

 private:
  void listen();

  std::stop_source source_;
  sigset_t watched_ = {}, ignored_ = {}, old_mask_ = {};
  std::atomic<int> received_{0};
  std::atomic<bool> closing_{false};
  std::thread listener_;
};

}  // namespace moetune
