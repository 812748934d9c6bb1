// Runs cases of a target in child processes and reports those that crash, hang, take too much memory or are handled
// wrongly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/fuzz/target.h"

namespace moetune::fuzz {

struct RunOptions {
  std::uint64_t cases = 1000;
  double seconds = 0;  // 0: until all cases are done
  std::uint64_t seed = 1;
  std::filesystem::path save = "fuzz_findings";  // where offending inputs go
};

struct RunResult {
  std::uint64_t cases = 0;
  std::uint64_t findings = 0;
  double seconds = 0;
};

// Ends early after 20 findings. Prints each with the file of its input, and how to run that again.
RunResult run_target(const TargetKind& kind, const RunOptions& options);

// One input, in this process, for a debugger. Returns what was found; "" if it was handled as it should be.
std::string replay_input(const TargetKind& kind, const std::string& input);

}  // namespace moetune::fuzz
