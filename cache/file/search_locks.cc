#include "cache/file/search_locks.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/digest.h"

namespace moetune {

// A child that another thread has forked and that has not yet become its program shares the open file: closing it here
// would leave the locks to that child.
SearchLocks::~SearchLocks() {
  if (file_ < 0) return;
  for (const std::int64_t workload : entered_) lock(F_UNLCK, workload, false);
  ::close(file_);
}

SearchLocks::SearchLocks(SearchLocks&& other) noexcept
    : database_(std::move(other.database_)),
      file_(std::exchange(other.file_, -1)),
      entered_(std::move(other.entered_)) {}

bool SearchLocks::open_file() {
  if (file_ < 0) {
    const std::string path = database_.string() + "-searches";
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
    struct stat facts = {};
    if (file_ >= 0 && (::fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode))) ::close(std::exchange(file_, -1));
  }
  return file_ >= 0;
}

// Locks belong to the open file, not to the process: closing another descriptor of it does not end them, and two
// caches of one process exclude each other as those of two processes do.
bool SearchLocks::lock(short kind, std::int64_t workload, bool wait) const {
  struct flock range = {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = workload;
  range.l_len = 1;
  for (;;) {
    if (::fcntl(file_, wait ? F_OFD_SETLKW : F_OFD_SETLK, &range) == 0) return true;
    if (errno != EINTR) return errno != EAGAIN && errno != EACCES;
  }
}

void SearchLocks::enter(std::int64_t workload) {
  if (!open_file()) return;
  lock(F_RDLCK, workload, true);
  entered_.insert(workload);
}

bool SearchLocks::try_exclusive(std::int64_t workload) { return !open_file() || lock(F_WRLCK, workload, false); }

void SearchLocks::release_exclusive(std::int64_t workload) {
  if (file_ >= 0) lock(entered_.contains(workload) ? F_RDLCK : F_UNLCK, workload, false);
}

std::int64_t SearchLocks::number_of(std::string_view text) {
  constexpr std::uint64_t kAboveWorkloads = std::uint64_t{1} << 62;
  const std::uint64_t bits = std::stoull(digest(text).substr(0, 16), nullptr, 16);
  return static_cast<std::int64_t>(kAboveWorkloads | (bits & (kAboveWorkloads - 1)));
}

}  // namespace moetune
