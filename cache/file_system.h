// Where a cache file lies: WAL shares memory between processes, which a network file system cannot give.
// Pure functions over statfs(2); thread-safe.
#pragma once

#include <filesystem>
#include <string>

namespace moetune {

// "NFS", "SMB", "FUSE", "Lustre", ... for a statfs type whose files several hosts may share; empty for a
// local one. FUSE and 9p count: what is behind them cannot be known.
std::string network_name(long statfs_type);

// As above for the file system that holds `path`, or its nearest existing parent.
std::string network_file_system(const std::filesystem::path& path);

}  // namespace moetune
