// A user's program that is spoken to in lines over its standard streams. It runs under a guard (guard.h), so it and all
// that it starts are gone once this object is, or its process.
//
// Nothing here waits for the program but next_line(). What it may cost is bounded: the length of a line, the bytes that
// it does not read, the words that it writes to stderr. One owner, one thread. Errors: BrokenEnvironment if no process
// can be started; what the program does is why_over().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "tuner/process/error_tail.h"
#include "tuner/process/protocol.h"

namespace moetune {

class GuardedProgram {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
  static constexpr std::size_t kMostUnread = std::size_t{1} << 24;  // that was sent
  static constexpr std::chrono::milliseconds kGrace{500};           // to end by itself once its input has ended

  // `command` as /bin/sh takes it; in this process's folder and environment.
  explicit GuardedProgram(const std::string& command);
  // Closes its input and gives it kGrace.
  ~GuardedProgram();
  GuardedProgram(const GuardedProgram&) = delete;
  GuardedProgram& operator=(const GuardedProgram&) = delete;

  // Queues one line, which holds no line end.
  void send(std::string_view line);
  // The next line that it wrote, without its end; waits for one until then. nullopt if none came, or it is over.
  std::optional<std::string> next_line(Clock::time_point until);

  // Ends it at once.
  void stop();
  // Why no line will come any more: "exited with status 1; it said: ..."; "" while one may.
  const std::string& why_over() const { return why_over_; }

 private:
  std::optional<std::string> buffered_line();
  void exchange(std::chrono::milliseconds wait);
  void write_some();
  void read_some();
  void end(const std::string& why);
  void end_of_output();
  bool reap(std::chrono::milliseconds patience);

  pid_t guard_ = -1;
  int wait_status_ = 0;
  FileDescriptor input_, output_, life_;  // the guard lives while `life_` is open
  ErrorTail errors_;
  std::string unsent_, unread_;
  std::size_t sent_ = 0;     // of unsent_
  std::size_t taken_ = 0;    // of unread_
  std::size_t scanned_ = 0;  // of unread_: no line end between taken_ and here
  std::string why_over_;
};

}  // namespace moetune
