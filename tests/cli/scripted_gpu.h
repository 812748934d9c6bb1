// The tool on a small GPU of tests/fake_cuda, with a few configurations of decode_kernel that the stand-in for NVRTC
// compiles: the real one takes most of such a test's time, and stored_winner_test.cc has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/cli/tool.h"
#include "tests/paths.h"

namespace moetune::testing {

class ScriptedGpu {
 public:
  // Launches run on the CPU: what a calibration moves, a sixteenth of it, should be little.
  static constexpr std::int64_t kMemory = 4 << 20;

  // `script` goes on after the size of the memory: ",fail_at=60,code=719" (tests/fake_cuda/README.md).
  explicit ScriptedGpu(const std::string& script = "")
      : tool{{{"MOETUNE_LIBCUDA", paths::fake_libcuda()},
              {"MOETUNE_FAKE_CUDA", "memory=" + std::to_string(kMemory) + script},
              {"MOETUNE_NVRTC", paths::fake_nvrtc()},
              {"MOETUNE_DATA_DIR", data_.string()}}} {
    Tool::constrain(data_, "decode_kernel",
                    "loader == 'cp_async' && stages == 2 && warps == 4 && tile_kib == 16 && vector_bytes == 16 &&"
                    " blocks_per_sm == 1");
  }

  const std::filesystem::path& data() const { return data_; }  // templates and spaces, to edit

 private:
  Tool home_;
  std::filesystem::path data_ = home_.copy_data();

 public:
  Tool tool;
};

}  // namespace moetune::testing
