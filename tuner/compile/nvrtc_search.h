// Where NVRTC is looked for, in order: MOETUNE_NVRTC (a library or a folder; nothing else is tried where it
// is set), the executable's folder, build/cuda/nvidia/*/lib below the executable's folder or one above it
// (what scripts/setup fetches), CUDA_HOME and CUDA_PATH, /usr/local/cuda, and the loader's own path.
//
// Plain values and functions of the file system and the environment; opens no library.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace moetune {

// The folders to look in and the one place the user may insist on.
struct NvrtcSearch {
  std::filesystem::path insisted;              // MOETUNE_NVRTC
  std::vector<std::filesystem::path> folders;  // in order
  bool loader_path = true;                     // lastly, by bare name

  static NvrtcSearch of_process();  // from /proc/self/exe and the environment
};

// The sorted files in `folder` whose names are `prefix` followed by digits and dots.
std::vector<std::filesystem::path> versioned_files(const std::filesystem::path& folder,
                                                   std::string_view prefix);

// Every libnvrtc.so.N in `folder`, newest major version first.
std::vector<std::filesystem::path> nvrtc_libraries_in(const std::filesystem::path& folder);

}  // namespace moetune
