#include "serve/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace moetune {

FileLock::FileLock(const std::filesystem::path& path, int flags, const std::string& busy)
    : file_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644)) {
  if (file_ < 0)
    throw BrokenEnvironment("cannot make the lock " + path.string() + ": " + std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw BrokenEnvironment(busy);
}

FileLock FileLock::of_file(const std::filesystem::path& file, const std::string& busy) {
  return {file, O_RDWR | O_CREAT | O_NOFOLLOW, busy};
}

FileLock FileLock::of_folder(const std::filesystem::path& folder, const std::string& busy) {
  return {folder, O_RDONLY | O_DIRECTORY, busy};
}

FileLock::FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

// A child that has been forked and is not yet its own program shares the open file: closing alone would leave it the
// lock.
FileLock::~FileLock() {
  if (file_ < 0) return;
  ::flock(file_, LOCK_UN);
  ::close(file_);
}

}  // namespace moetune
