// One night of several on a host as a process of its own: this executable again, with the arguments of `moetune retune`
// for one device. It writes its events to stdout, a line of JSON each, and waits on stdin for the word to begin. When
// stdin ends it stops in good order; the kernel kills it if its parent dies.
//
// Each object belongs to the thread that made it. Errors: BrokenEnvironment if no process can be started.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "jobs/session/documents.h"
#include "tuner/process/protocol.h"

namespace moetune {

// The parent's side. Destruction asks the process to stop, and waits for its end.
class MemberProcess {
 public:
  // `twin` as in NightMember.
  MemberProcess(std::vector<std::string> arguments, std::size_t twin);
  ~MemberProcess();
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;

  void let_begin();
  void stop() { orders_ = FileDescriptor(); }

  int events() const { return events_.get(); }  // readable if read() has something to do; -1 once it has ended
  std::vector<Document> read();                 // never waits
  // After its end: the signal that ended it in words, or "".
  const std::string& death() const { return death_; }

 private:
  void reap();

  pid_t pid_ = -1;
  FileDescriptor orders_, events_;
  std::string unread_, death_;
};

// The member's side, in its own process: what the parent has called it for.
class NightParent {
 public:
  // nullopt if this process is no member.
  static std::optional<std::size_t> twin_of_this_process();

  explicit NightParent(const std::stop_token& stop);  // `stop` asks the member to stop as well

  std::stop_token stop() const { return stop_.get_token(); }
  bool may_begin();  // waits; false if the member is to stop instead
  void send(const Document& event);

 private:
  void listen(const std::stop_token& ended);

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> passed_on_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool begins_ = false;
  std::jthread listener_;
};

}  // namespace moetune
