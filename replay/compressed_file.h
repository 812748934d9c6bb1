// Files that may be compressed with gzip or zstd: told apart by their first bytes, never by their names.
// Stateless. Throws BadInput naming the file for one that is missing, damaged, larger than 512 MiB or of more than
// 10,000 gzip members, BrokenEnvironment where one
// cannot be written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace moetune {

std::string read_whole_file(const std::filesystem::path& path);

// The content; `bytes` themselves where they are not compressed. Stops early once `enough` bytes are out.
std::string decompress(std::string_view bytes, std::string_view file,
                       std::size_t enough = std::numeric_limits<std::size_t>::max());

std::string compress_zstd(std::string_view content);

}  // namespace moetune
