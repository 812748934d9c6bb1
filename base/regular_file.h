// Files that somebody names, to read or to write. All are opened here, or by others after require_regular_file(): what
// is no regular file (a pipe, a device, a folder) is refused and never waited for. Errors: BadInput that names it.
// Stateless except for AppendedFile; thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

// The bytes of a regular file of at most `most` bytes. Throws for one that is too large or cannot be read.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most);

// As above; nullopt if there is no such file.
std::optional<std::string> find_regular_file(const std::filesystem::path& path, std::size_t most);

// Throws if there is something of that name that is no regular file. For what others open, such as the loader.
void require_regular_file(const std::filesystem::path& path);

// A file that grows, made if there is none. Owned by one thread.
class AppendedFile {
 public:
  explicit AppendedFile(const std::filesystem::path& path);
  AppendedFile(const AppendedFile&) = delete;
  ~AppendedFile();

  bool write(std::string_view bytes);  // false if not all could be written

 private:
  int file_ = -1;
};

// When the file was last written, in nanoseconds since 1970.
inline std::int64_t changed_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

}  // namespace moetune
