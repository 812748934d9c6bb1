// The tuner's side of one worker: this very executable started again as `moetune worker --fd 3`, asked over a
// socket, killed when it is late. The CUDA driver lives in there only, so that a fault, a hang or a crash
// costs a process and not the search.
//
// One owner, one thread. The worker does not outlive its parent: it ends when its socket closes, and the
// kernel kills it (PR_SET_PDEATHSIG) where it cannot read. Destruction kills and reaps it. Errors:
// BrokenEnvironment where no process can be started; all that happens to a running worker is a Reply::Status.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tuner/worker/protocol.h"

namespace moetune {

class WorkerProcess {
 public:
  // `executable` empty: /proc/self/exe.
  explicit WorkerProcess(const std::string& executable = {});
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  struct Reply {
    enum class Status { answered, late, died, stopped };
    Status status = Status::answered;
    Message message;
    std::string cause;  // of a death: "signal 11 (Segmentation fault); its last words: ..."
  };

  // After `late`, `died` and `stopped` the process is gone: start another.
  Reply request(const Message& message, std::chrono::milliseconds limit, std::stop_token stop = {});

  // Whether it runs still; a worker may have been killed between two requests.
  bool alive();
  pid_t pid() const { return pid_; }

 private:
  void drain_stderr();
  void kill_and_reap(std::chrono::milliseconds patience = std::chrono::seconds(60));
  std::string describe_end() const;

  pid_t pid_ = -1;
  int wait_status_ = 0;
  FileDescriptor stderr_;
  std::string stderr_tail_;
  std::unique_ptr<Channel> channel_;
};

}  // namespace moetune
