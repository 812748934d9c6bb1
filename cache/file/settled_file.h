// Reading a database file without locks, by noticing afterwards whether anybody has changed it.
//
// A reader of a WAL database makes its -shm and -wal files, locks, and takes both away again: 200 system calls, where
// reading a file that nobody changes takes a dozen. The times of a file decide, so a file that was changed within the
// granularity of such times does not count as settled. Nor does any file of a network file system, whose times another
// host's clock sets, and whose client may show them as they were seconds ago.
// Plain values; stateless.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace moetune {

class FileState {
 public:
  // nullopt if there is no such file.
  static std::optional<FileState> of(const std::filesystem::path& path);
  // The same of a database whose main file is all of it, and was not changed for at least `age`: no log waits beside
  // it, and no journal of a change that was cut off. `network`: what network_file_system() says of the path.
  static std::optional<FileState> of_settled(const std::filesystem::path& database, std::chrono::milliseconds age,
                                             const std::string& network);

  // Between two looks at one path that agree nobody has changed the file, if the first saw it settled.
  bool operator==(const FileState& other) const;

 private:
  // Since 1970, of which a file may have more seconds than 64 bits hold nanoseconds.
  struct Time {
    std::int64_t seconds = 0, nanoseconds = 0;
    auto operator<=>(const Time&) const = default;
  };

  explicit FileState(const struct stat& facts);

  std::uint64_t device_ = 0, number_ = 0;
  std::int64_t bytes_ = 0;
  Time written_, changed_;  // the content, and anything of the file
};

}  // namespace moetune
