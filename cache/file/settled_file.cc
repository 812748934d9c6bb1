#include "cache/file/settled_file.h"

#include <algorithm>
#include <cerrno>

namespace moetune {
namespace {

namespace fs = std::filesystem;

// Whether the file beside the database is not there, or holds nothing.
bool is_empty(const fs::path& database, const char* suffix) {
  struct stat facts;
  if (::lstat((database.string() + suffix).c_str(), &facts) != 0) return errno == ENOENT;
  return S_ISREG(facts.st_mode) && facts.st_size == 0;
}

}  // namespace

FileState::FileState(const struct stat& facts)
    : device_(facts.st_dev),
      number_(facts.st_ino),
      bytes_(facts.st_size),
      written_{facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec},
      changed_{facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec} {}

bool FileState::operator==(const FileState& other) const = default;

std::optional<FileState> FileState::of(const fs::path& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return FileState(facts);
}

// The file before what lies beside it: once no log is seen, all that was committed before is in the main file, and a
// later look tells whether that has been so since the first. Beside a link lies nothing: SQLite looks where it leads.
std::optional<FileState> FileState::of_settled(const fs::path& database, std::chrono::milliseconds age,
                                               const std::string& network) {
  struct stat facts;
  if (!network.empty()) return std::nullopt;
  if (::lstat(database.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  const FileState state(facts);
  if (!is_empty(database, "-wal") || !is_empty(database, "-journal")) return std::nullopt;
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const std::chrono::nanoseconds latest = now - std::min(age, std::chrono::floor<std::chrono::milliseconds>(now));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(latest);
  const Time limit{seconds.count(), (latest - seconds).count()};
  return std::max(state.written_, state.changed_) <= limit ? std::optional(state) : std::nullopt;
}

}  // namespace moetune
