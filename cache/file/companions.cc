#include "cache/file/companions.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// The name that SQLite adds its suffixes to; SQLite resolves links first.
std::string stem_of(const fs::path& database) {
  std::error_code failed;
  const fs::path real = fs::weakly_canonical(database, failed);
  return (failed ? database : real).string();
}

// https://www.sqlite.org/fileformat2.html#the_rollback_journal: a journal's end is the super-journal's name,
// four bytes of its length, four of its checksum, and the eight of the magic number. Big-endian.
constexpr std::array<unsigned char, 8> kMagic = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
constexpr std::size_t kTail = 16;

bool names_super_journal(const fs::path& journal) {
  if (std::error_code absent; !fs::is_regular_file(journal, absent)) return false;
  std::ifstream in(journal, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : 0;
  std::array<unsigned char, kTail> tail;
  if (size < static_cast<std::streamoff>(kTail)) return false;
  in.seekg(size - static_cast<std::streamoff>(kTail));
  if (!in.read(reinterpret_cast<char*>(tail.data()), kTail)) return false;
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8 | tail[i];
  return length > 0 && std::memcmp(tail.data() + 8, kMagic.data(), kMagic.size()) == 0;
}

}  // namespace

void require_sound_companions(const fs::path& database) {
  const std::string stem = stem_of(database);
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    const fs::path file = stem + suffix;
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(file, ignored);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      throw BrokenEnvironment(file.string() + " is not a regular file; remove it, or name another cache file");
    }
  }
  const fs::path journal = stem + "-journal";
  if (names_super_journal(journal)) {
    throw BrokenEnvironment(journal.string() +
                            " names another file for SQLite to delete, which no journal of moetune's does: it "
                            "was made by somebody else; remove it, or name another cache file");
  }
}

bool has_journal(const fs::path& database) {
  const std::string journal = stem_of(database) + "-journal";
  if (std::error_code absent; !fs::is_regular_file(journal, absent)) return false;
  std::ifstream in(journal, std::ios::binary);
  return in.get() > 0;  // a journal that is over begins with zeros
}

}  // namespace moetune
