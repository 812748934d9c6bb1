#include "tuner/compile/nvrtc_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "base/environment.h"

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

// Whether only root, the user and `owner` can have written there. A link counts as what it leads to.
bool is_trusted(const fs::path& path, uid_t owner) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  const bool owned = facts.st_uid == 0 || facts.st_uid == ::geteuid() || facts.st_uid == owner;
  return owned && (facts.st_mode & S_IWOTH) == 0;
}

bool holds_trusted_libraries(const fs::path& folder, uid_t owner) {
  const std::vector<fs::path> libraries = nvrtc_libraries_in(folder);
  return is_trusted(folder, owner) &&
         std::ranges::all_of(libraries, [&](const fs::path& library) { return is_trusted(library, owner); });
}

// The project folder of PROJECT/build/PRESET/moetune or PROJECT/build/PRESET/tests/test_tuner; empty for another
// place.
fs::path project_of(const fs::path& executable) {
  const fs::path folder = executable.parent_path();
  for (const fs::path& preset : {folder, folder.parent_path()}) {
    const fs::path build = preset.parent_path(), project = build.parent_path();
    std::error_code ignored;
    if (build.filename() == "build" && fs::is_regular_file(project / "CMakeLists.txt", ignored) &&
        fs::is_regular_file(project / "scripts/setup", ignored)) {
      return project;
    }
  }
  return {};
}

std::vector<fs::path> package_folders(const fs::path& project, uid_t owner) {
  std::vector<fs::path> folders;
  for (const char* place : {"", "build", "build/cuda", "build/cuda/nvidia"}) {
    if (!is_trusted(project / place, owner)) return {};
  }
  std::error_code ignored;
  for (fs::directory_iterator it(project / "build/cuda/nvidia", ignored), end; it != end; it.increment(ignored)) {
    const fs::path folder = it->path() / "lib";
    if (is_trusted(it->path(), owner) && fs::is_directory(folder, ignored) && holds_trusted_libraries(folder, owner)) {
      folders.push_back(folder);
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

std::vector<fs::path> nvrtc_folders_of(const fs::path& executable) {
  struct stat facts = {};
  if (::stat(executable.c_str(), &facts) != 0) return {};
  std::vector<fs::path> folders;
  if (holds_trusted_libraries(executable.parent_path(), facts.st_uid)) folders.push_back(executable.parent_path());
  const fs::path project = project_of(executable);
  if (project.empty()) return folders;
  const std::vector<fs::path> packages = package_folders(project, facts.st_uid);
  folders.insert(folders.end(), packages.begin(), packages.end());
  return folders;
}

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

std::vector<std::string> toolkit_headers(const std::string& nvrtc) {
  std::vector<fs::path> places;
  // A toolkit has lib64/ beside include/, as NVIDIA's packages of CUDA 13 have lib/. Those of 12 have a folder each.
  const fs::path library(nvrtc), package = library.parent_path().parent_path();
  if (library.is_absolute())
    for (const fs::path& place : {package, package.parent_path() / "cuda_runtime"}) places.push_back(place);
  for (const char* const name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const place = environment_variable(name)) places.emplace_back(place);
  places.emplace_back("/usr/local/cuda");
  std::vector<std::string> incomplete;
  for (const fs::path& place : places) {
    std::error_code ignored;
    const fs::path folder = place / "include";
    if (!fs::is_regular_file(folder / "cuda_fp16.h", ignored)) continue;
    std::vector<std::string> folders = {folder.string()};
    for (const fs::path& more : {folder / "cccl", place.parent_path() / "cuda_cccl/include"})
      if (fs::is_directory(more / "cuda/std", ignored)) folders.push_back(more.string());
    if (folders.size() > 1) return folders;
    if (incomplete.empty()) incomplete = folders;
  }
  return incomplete;
}

NvrtcSearch NvrtcSearch::of_process() {
  NvrtcSearch search;
  const auto variable = [](const char* name) -> fs::path {
    const char* value = environment_variable(name);
    return value != nullptr ? value : "";
  };
  search.requested = variable("MOETUNE_NVRTC");

  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  search.folders = nvrtc_folders_of(executable);
  for (const fs::path& toolkit : {variable("CUDA_HOME"), variable("CUDA_PATH"), fs::path("/usr/local/cuda")}) {
    if (toolkit.empty()) continue;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}) {
      search.folders.push_back(toolkit / folder);
    }
  }
  return search;
}

}  // namespace moetune
