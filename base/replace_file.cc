#include "base/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace moetune {
namespace {

// A new file beside `path`, by a name that nobody can have linked elsewhere.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path) : name_(path.string() + ".XXXXXX") {
    file_ = ::mkostemp(name_.data(), O_CLOEXEC);  // O_EXCL, mode 0600
    if (file_ < 0) fail(path);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (file_ >= 0) ::close(file_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  // As any other new file: what the umask leaves.
  void make_readable() const {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(file_, 0666 & ~mask);
  }

  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return false;
      if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  bool rename_to(const std::filesystem::path& path) {
    if (::close(std::exchange(file_, -1)) != 0 || ::rename(name_.c_str(), path.c_str()) != 0) return false;
    name_.clear();
    return true;
  }

  [[noreturn]] static void fail(const std::filesystem::path& path) {
    throw BrokenEnvironment("cannot write " + path.string() + ": " + std::strerror(errno));
  }

 private:
  std::string name_;
  int file_ = -1;
};

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile temporary(path);
  temporary.make_readable();
  if (!temporary.write(bytes) || !temporary.rename_to(path)) TemporaryFile::fail(path);
}

}  // namespace moetune
