// The last words that a child process wrote to its stderr: the rest is read, so that the child never waits, and
// dropped. One owner; not thread-safe; no errors.
#pragma once

#include <string>

#include "tuner/process/protocol.h"

namespace moetune {

class ErrorTail {
 public:
  explicit ErrorTail(FileDescriptor pipe = FileDescriptor());  // its reading end; does not wait from now on

  int fd() const { return pipe_.get(); }
  // Reads what has arrived. False once nothing more can come.
  bool drain();
  void close() { pipe_ = FileDescriptor(); }
  // In one line; "" if it said nothing.
  std::string words() const;

 private:
  FileDescriptor pipe_;
  std::string tail_;
};

}  // namespace moetune
