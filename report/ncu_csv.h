// Reads what Nsight Compute found of some launches: the CSV of `ncu --csv --page raw`, which `moetune bench --ncu` has
// it write.
//
// Pure, but for reading the file, which may come from anybody: its size, rows and columns are bounded. Throws BadInput
// that names the file and what is wrong.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moetune {

// Shares of what the GPU can do at most, in percent; what the file does not say is unknown.
struct NcuLaunch {
  std::string kernel;
  std::optional<double> time_us;
  std::optional<double> occupancy, most_occupancy;  // of the warps that fit an SM: active, and at most
  std::optional<double> sm, memory, dram, l2, l1;   // throughput
  // Warps that wait, for each instruction that is issued, by reason: "long_scoreboard". The most first.
  std::vector<std::pair<std::string, double>> stalls;
};

std::vector<NcuLaunch> read_ncu_csv(const std::filesystem::path& file);

}  // namespace moetune
