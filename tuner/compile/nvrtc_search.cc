#include "tuner/compile/nvrtc_search.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

namespace moetune {
namespace {

namespace fs = std::filesystem;

int major_version(const fs::path& library) {
  const std::string name = library.filename().string();
  const std::size_t begin = name.find(".so.") + 4;
  int major = 0;
  std::from_chars(name.data() + begin, name.data() + name.size(), major);
  return major;
}

}  // namespace

std::vector<fs::path> versioned_files(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        name.find_first_not_of("0123456789.", prefix.size()) == std::string::npos) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> nvrtc_libraries_in(const fs::path& folder) {
  std::vector<fs::path> libraries = versioned_files(folder, "libnvrtc.so.");
  std::stable_sort(libraries.begin(), libraries.end(),
                   [](const fs::path& a, const fs::path& b) { return major_version(a) > major_version(b); });
  return libraries;
}

NvrtcSearch NvrtcSearch::of_process() {
  NvrtcSearch search;
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  search.insisted = variable("MOETUNE_NVRTC");

  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  if (executable.has_parent_path()) search.folders.push_back(executable.parent_path());
  for (fs::path above = executable.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    std::vector<fs::path> packages;
    for (fs::directory_iterator it(above / "build/cuda/nvidia", ignored), end; it != end;
         it.increment(ignored)) {
      if (fs::is_directory(it->path() / "lib", ignored)) packages.push_back(it->path() / "lib");
    }
    std::sort(packages.begin(), packages.end());
    search.folders.insert(search.folders.end(), packages.begin(), packages.end());
  }
  for (const fs::path& toolkit :
       {variable("CUDA_HOME"), variable("CUDA_PATH"), fs::path("/usr/local/cuda")}) {
    if (toolkit.empty()) continue;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
      search.folders.push_back(toolkit / folder);
    }
  }
  return search;
}

}  // namespace moetune
