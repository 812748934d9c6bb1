// One service a queue: a second one would take over, and run again, what the first one runs.
//
// The lock FILE.lock beside the queue is the operating system's: it is held while this lives, and ends with its
// process, however that ends. A file system without locks has none. Errors: BrokenEnvironment if another service holds
// it, or the file cannot be made.
#pragma once

#include <filesystem>

namespace moetune {

class QueueLock {
 public:
  explicit QueueLock(const std::filesystem::path& queue);
  QueueLock(const QueueLock&) = delete;
  ~QueueLock();

 private:
  int file_ = -1;
};

}  // namespace moetune
