// The parent's side of one child process: this very executable started again as `moetune ROLE --fd 3`, asked
// over a socket, killed when it is late. Libraries that can hang or crash (the CUDA driver, NVRTC) live in
// children, so that a fault costs a process and not the search.
//
// One thread at a time. A child does not outlive its parent: it ends when its socket closes, and the kernel
// kills it (PR_SET_PDEATHSIG) if it cannot read; so it dies with the thread that started it, too. Ctrl-C on
// a terminal reaches the parent alone. Destruction kills and reaps it. Errors: BrokenEnvironment if no
// process can be started; all that happens to a running child is a Reply::Status.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tuner/process/error_tail.h"
#include "tuner/process/protocol.h"

namespace moetune {

class ChildProcess {
 public:
  struct Role {
    std::string verb;        // of the hidden command: "worker"
    std::string name;        // in messages: "the worker" died of ...
    std::string executable;  // empty: this one
  };

  explicit ChildProcess(Role role);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct Reply {
    enum class Status { answered, late, died, stopped };
    Status status = Status::answered;
    Message message;
    bool killed = false;  // died of a signal, from whomever
    std::string cause;    // of a death: "the worker died of signal 11 (Segmentation fault); it said: ..."
  };

  static constexpr std::chrono::seconds kSlow{10};

  // After `late`, `died` and `stopped` the process is gone: start another. `slow`, unless empty, is called on this
  // thread once there was no answer for kSlow.
  Reply request(const Message& message, std::chrono::milliseconds limit, std::stop_token stop = {},
                std::function<void()> slow = {});

  // Whether it runs still; a child may have been killed between two requests.
  bool alive();
  pid_t pid() const { return pid_; }

 private:
  void drain_stderr();
  void kill_and_reap(std::chrono::milliseconds patience = std::chrono::seconds(60));
  std::string describe_end() const;

  Role role_;
  pid_t pid_ = -1;
  int wait_status_ = 0;
  ErrorTail stderr_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace moetune
