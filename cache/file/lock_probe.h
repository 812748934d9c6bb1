// Whether advisory locks work where a file lies. On a network mount without a lock service, and under some container
// file systems, every lock fails, and SQLite takes that for a lock that somebody else holds. Thread-safe.
#pragma once

#include <filesystem>
#include <string>

namespace moetune {

// The system's reason why no lock can be had on the file ("No locks available"); "" if one can, whoever holds others,
// or if the file cannot be opened. Keeps one descriptor a file open for good: closing it would drop the locks that this
// process holds on the file (POSIX).
std::string why_locks_fail(const std::filesystem::path& file);

}  // namespace moetune
