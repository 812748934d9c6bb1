#include "serve/queue_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace moetune {

QueueLock::QueueLock(const std::filesystem::path& queue) {
  const std::string name = queue.string() + ".lock";
  file_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (file_ < 0) throw BrokenEnvironment("cannot make the lock " + name + ": " + std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw BrokenEnvironment("another service works on the queue " + queue.string() +
                          "; stop it, or give this one a queue of its own with --queue FILE");
}

// A child that has been forked and is not yet its own program shares the open file: closing alone would leave it the
// lock.
QueueLock::~QueueLock() {
  ::flock(file_, LOCK_UN);
  ::close(file_);
}

}  // namespace moetune
