// Reads the file that moetune_write_misses writes: shapes that a server used and nobody had tuned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moetune {

struct MissedWorkload {
  std::string kernel, problem;
  std::uint64_t count = 0;  // picks
};

// In the file's order, which is most frequent first. Throws BadInput that names file, line and key if it cannot be
// read.
std::vector<MissedWorkload> read_misses(const std::filesystem::path& file);

}  // namespace moetune
