#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace moetune {
namespace {

// The opening of a pipe would wait for its other end.
constexpr int kNoWaiting = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

class Descriptor {
 public:
  explicit Descriptor(const char* path) : file_(::open(path, O_RDONLY | kNoWaiting)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw BadInput("cannot read " + path.string() + ": " + std::strerror(error));
}

void check_kind(const std::filesystem::path& path, const struct stat& facts) {
  if (S_ISDIR(facts.st_mode)) throw BadInput(path.string() + " is a folder, not a file");
  if (!S_ISREG(facts.st_mode)) throw BadInput(path.string() + " is not a regular file");
}

void check_readable(const std::filesystem::path& path, const struct stat& facts, std::size_t most) {
  check_kind(path, facts);
  if (static_cast<std::uintmax_t>(facts.st_size) > most) {
    throw BadInput(path.string() + " is larger than " + std::to_string(most >> 20) + " MiB, the most that is read");
  }
}

std::string read_all(const std::filesystem::path& path, int file, std::size_t size) {
  std::string content(size, '\0');
  std::size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::read(file, content.data() + filled, size - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, errno);
    if (got == 0) break;  // it has become shorter
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace

std::optional<std::string> find_regular_file(const std::filesystem::path& path, std::size_t most) {
  // By its kind first: the mere opening of some devices does something.
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(path, errno);
  }
  check_readable(path, facts, most);
  const Descriptor file(path.c_str());
  if (file.get() < 0 || ::fstat(file.get(), &facts) != 0) fail(path, errno);
  check_readable(path, facts, most);  // of what was opened: it may have been replaced meanwhile
  return read_all(path, file.get(), static_cast<std::size_t>(facts.st_size));
}

std::string read_regular_file(const std::filesystem::path& path, std::size_t most) {
  if (std::optional<std::string> content = find_regular_file(path, most)) return *std::move(content);
  fail(path, ENOENT);
}

void require_regular_file(const std::filesystem::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) == 0) check_kind(path, facts);
}

AppendedFile::AppendedFile(const std::filesystem::path& path) {
  require_regular_file(path);
  struct stat facts = {};
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | kNoWaiting, 0644);
  if (file_ < 0 || ::fstat(file_, &facts) != 0)
    throw BadInput("cannot write " + path.string() + ": " + std::strerror(errno));
  check_kind(path, facts);
}

AppendedFile::~AppendedFile() {
  if (file_ >= 0) ::close(file_);
}

bool AppendedFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace moetune
