#include "cache/file/lock_probe.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace moetune {
namespace {

int descriptor_of(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, int> open;
  const std::lock_guard alone(mutex);
  const auto known = open.find(file);
  if (known != open.end()) return known->second;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) open.emplace(file, descriptor);
  return descriptor;
}

}  // namespace

// A shared lock on a byte that SQLite never locks: only a lock service that is missing can refuse it.
std::string why_locks_fail(const std::filesystem::path& file) {
  constexpr off_t kUnusedByte = 0x3fffff00;
  const int descriptor = descriptor_of(file);
  if (descriptor < 0) return "";
  struct flock byte = {};
  byte.l_type = F_RDLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = kUnusedByte;
  byte.l_len = 1;
  while (::fcntl(descriptor, F_SETLK, &byte) != 0) {
    if (errno != EINTR) return std::strerror(errno);
  }
  byte.l_type = F_UNLCK;
  ::fcntl(descriptor, F_SETLK, &byte);
  return "";
}

}  // namespace moetune
