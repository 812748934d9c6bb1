// Looks for NVRTC, in this order: MOETUNE_NVRTC (a library or a folder; nothing else is tried if it is set), the
// executable's folder, build/cuda/nvidia/*/lib of the project that the executable was built in (which scripts/setup
// fetches), CUDA_HOME and CUDA_PATH, /usr/local/cuda, and the loader's own path.
//
// A library that is loaded runs: the first two places are searched only if nobody but the owner of the executable, root
// and the user can have put something there.
//
// Plain values and functions of the file system and the environment; opens no library.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace moetune {

// The folders to look in and the one place the user may insist on.
struct NvrtcSearch {
  std::filesystem::path requested;             // MOETUNE_NVRTC
  std::vector<std::filesystem::path> folders;  // in order
  bool loader_path = true;                     // lastly, by bare name

  static NvrtcSearch of_process();  // from /proc/self/exe and the environment
};

// The folders that an executable stands for: its own, and those of the packages in the build/cuda of its
// project, which is the folder above build/PRESET/ or build/PRESET/tests/ that has this project's
// CMakeLists.txt and scripts/setup.
std::vector<std::filesystem::path> nvrtc_folders_of(const std::filesystem::path& executable);

// The folders of CUDA's headers, in order: of the toolkit or the packages that the library `nvrtc` is of, else of
// CUDA_HOME, CUDA_PATH or /usr/local/cuda. The second one holds cuda/std and cub, and the first place that has both
// counts; one without them does where none has. Empty if there are none.
std::vector<std::string> toolkit_headers(const std::string& nvrtc);

// The sorted files in `folder` whose names are `prefix` followed by digits and dots.
std::vector<std::filesystem::path> versioned_files(const std::filesystem::path& folder, std::string_view prefix);

// Every libnvrtc.so.N in `folder`, newest major version first.
std::vector<std::filesystem::path> nvrtc_libraries_in(const std::filesystem::path& folder);

}  // namespace moetune
