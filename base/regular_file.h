// Reading files that somebody else may have made. Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace moetune {

// The bytes of a regular file of at most `most` bytes. A pipe, a device or a folder is not opened to wait on:
// throws BadInput that names the file, as for one that is too large or cannot be read.
std::string read_regular_file(const std::filesystem::path& path, std::size_t most);

// As above; nullopt if there is no such file.
std::optional<std::string> find_regular_file(const std::filesystem::path& path, std::size_t most);

}  // namespace moetune
