// The file system of a cache file. WAL shares memory between processes, which a network file system cannot give and a
// full or read-only folder has no room for. Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace moetune {

// "NFS", "SMB", "FUSE", "Lustre", ... for a statfs type whose files several hosts may share; empty for a
// local one. FUSE and 9p count: what is behind them cannot be known.
std::string network_name(long statfs_type);

// As above for the file system that holds `path`, or its nearest existing parent.
std::string network_file_system(const std::filesystem::path& path);

// Whether a new file of so many bytes could be made in `folder` now. True where that cannot be found out
// without leaving a trace. Nothing is left there.
bool has_room(const std::filesystem::path& folder, std::size_t bytes);

}  // namespace moetune
