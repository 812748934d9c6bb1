// Reading files that somebody else may have made. Stateless; thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace moetune {

// The bytes of a regular file of at most `most` bytes. A pipe, a device or a folder is not opened to wait on:
// throws BadInput that names the file, as for one that is too large or cannot be read.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most);

// As above; nullopt if there is no such file.
std::optional<std::string> find_regular_file(const std::filesystem::path& path, std::size_t most);

// When the file was last written, in nanoseconds since 1970.
inline std::int64_t changed_ns(const struct stat& facts) {
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

}  // namespace moetune
