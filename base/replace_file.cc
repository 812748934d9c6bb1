#include "base/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::size_t kRandomDigits = 6;  // as mkostemps() wants them
constexpr std::string_view kTemporaryEnding = ".tmp";

// A new file beside `path`, by a name that nobody can have linked elsewhere.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path)
      : name_(path.string() + "." + std::string(kRandomDigits, 'X') + std::string(kTemporaryEnding)) {
    file_ = ::mkostemps(name_.data(), static_cast<int>(kTemporaryEnding.size()), O_CLOEXEC);  // O_EXCL, mode 0600
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

  bool flush() const { return ::fsync(file_) == 0; }

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

// A rename lasts once its folder is on the disk. Some file systems cannot flush folders, and need not.
void flush_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

// A rename would put a file in the place of a device or a pipe.
void require_replaceable(const std::filesystem::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode)) return;
  throw BrokenEnvironment("cannot write " + path.string() + ": " +
                          (S_ISDIR(facts.st_mode) ? std::strerror(EISDIR) : "it is no regular file"));
}

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view bytes, Durable durable) {
  require_replaceable(path);
  TemporaryFile temporary(path);
  temporary.make_readable();
  if (!temporary.write(bytes) || (durable == Durable::yes && !temporary.flush()) || !temporary.rename_to(path))
    TemporaryFile::fail(path);
  if (durable == Durable::yes) flush_folder_of(path);
}

std::optional<std::string> replaced_by(std::string_view temporary) {
  if (!temporary.ends_with(kTemporaryEnding)) return std::nullopt;
  temporary.remove_suffix(kTemporaryEnding.size());
  if (temporary.size() <= kRandomDigits + 1) return std::nullopt;
  const std::string_view random = temporary.substr(temporary.size() - kRandomDigits);
  temporary.remove_suffix(kRandomDigits);
  const bool is_random = std::ranges::all_of(random, [](unsigned char c) { return std::isalnum(c) != 0; });
  if (!is_random || !temporary.ends_with('.')) return std::nullopt;
  return std::string(temporary.substr(0, temporary.size() - 1));
}

void remove_left_overs(const std::filesystem::path& path) {
  constexpr std::chrono::hours kAge{1};  // one that is being written is younger
  namespace fs = std::filesystem;
  std::error_code failure;
  std::vector<fs::path> left;
  for (fs::directory_iterator it(fs::absolute(path).parent_path(), failure), end; !failure && it != end;
       it.increment(failure)) {
    std::error_code gone;
    const auto written = fs::last_write_time(it->path(), gone);
    const bool is_old = !gone && fs::file_time_type::clock::now() - written > kAge;
    if (is_old && replaced_by(it->path().filename().string()) == path.filename().string()) left.push_back(it->path());
  }
  for (const fs::path& file : left) fs::remove(file, failure);
}

}  // namespace moetune
