#include "tuner/compile/nvrtc.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/temporary_folder.h"

namespace fs = std::filesystem;
using moetune::BrokenEnvironment;
using moetune::Nvrtc;
using moetune::NvrtcJob;
using moetune::NvrtcResult;
using moetune::NvrtcSearch;

namespace {

bool lists(const NvrtcSearch& search, const fs::path& folder) {
  return std::find(search.folders.begin(), search.folders.end(), folder) != search.folders.end();
}

}  // namespace

TEST_CASE("the newest NVRTC of a folder comes first and its builtins are no NVRTC") {
  const moetune::TemporaryFolder folder;
  for (const char* name : {"libnvrtc.so", "libnvrtc.so.9", "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.12.alt",
                           "libnvrtc-builtins.so.13.0", "libnvrtc.alt.so.13"}) {
    std::ofstream(folder.path() / name) << "";
  }
  CHECK(moetune::nvrtc_libraries_in(folder.path()) == std::vector<fs::path>{folder.path() / "libnvrtc.so.13",
                                                                            folder.path() / "libnvrtc.so.12",
                                                                            folder.path() / "libnvrtc.so.9"});
  CHECK(moetune::nvrtc_libraries_in(folder.path() / "none").empty());
}

TEST_CASE("the search starts at the executable and honours CUDA_HOME") {
  const char* before = std::getenv("CUDA_HOME");
  const std::string restore = before != nullptr ? before : "";
  ::setenv("CUDA_HOME", "/opt/some-cuda", 1);
  const NvrtcSearch search = NvrtcSearch::of_process();
  if (before != nullptr) {
    ::setenv("CUDA_HOME", restore.c_str(), 1);
  } else {
    ::unsetenv("CUDA_HOME");
  }
  REQUIRE_FALSE(search.folders.empty());
  CHECK(search.folders.front() == fs::read_symlink("/proc/self/exe").parent_path());
  CHECK(lists(search, "/opt/some-cuda/lib64"));
  CHECK(lists(search, "/usr/local/cuda/lib64"));
}

TEST_CASE("CUDA's headers are those of the compiler's own toolkit or packages, with cuda/std behind them") {
  const moetune::TemporaryFolder folder;
  const auto header = [&](const std::string& path) {
    fs::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << "";
    return (folder.path() / path).parent_path().string();
  };
  const std::string of_13 = header("cu13/include/cuda_fp16.h");
  fs::create_directories(folder.path() / "cu13/include/cccl/cuda/std");
  CHECK(moetune::toolkit_headers((folder.path() / "cu13/lib/libnvrtc.so.13").string()) ==
        std::vector<std::string>{of_13, of_13 + "/cccl"});
  const std::string of_12 = header("nvidia/cuda_runtime/include/cuda_fp16.h");
  const std::string std_of_12 = (folder.path() / "nvidia/cuda_cccl/include").string();
  fs::create_directories(std_of_12 + "/cuda/std");
  CHECK(moetune::toolkit_headers((folder.path() / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").string()) ==
        std::vector<std::string>{of_12, std_of_12});
  CHECK(moetune::toolkit_headers("/nowhere/lib64/libnvrtc.so.13") == moetune::toolkit_headers(""));
}

TEST_CASE("packages count in the project's own build folder only, and where nobody else can write") {
  const moetune::TemporaryFolder folder;
  const fs::path shared = folder.path(), project = shared / "project", binary = project / "build/dev/moetune";
  const fs::path packages = "build/cuda/nvidia/cu13/lib";
  fs::create_directories(binary.parent_path());
  fs::create_directories(project / "scripts");
  for (const fs::path& root : {shared, project, project / "build/dev"}) {
    fs::create_directories(root / packages);
    std::ofstream(root / packages / "libnvrtc.so.13") << "";
  }
  for (const fs::path& file :
       {binary, project / "CMakeLists.txt", project / "scripts/setup", shared / "moetune", shared / "CMakeLists.txt"})
    std::ofstream(file) << "";
  using Folders = std::vector<fs::path>;
  CHECK(moetune::nvrtc_folders_of(binary) == Folders{binary.parent_path(), project / packages});
  CHECK(moetune::nvrtc_folders_of(shared / "moetune") == Folders{shared});

  fs::permissions(project / packages / "libnvrtc.so.13", fs::perms(0646));
  CHECK(moetune::nvrtc_folders_of(binary) == Folders{binary.parent_path()});
  fs::permissions(project / packages / "libnvrtc.so.13", fs::perms(0644));
  fs::permissions(project / "build", fs::perms(0777));
  CHECK(moetune::nvrtc_folders_of(binary) == Folders{binary.parent_path()});
  fs::permissions(project / "build", fs::perms(0755));
  fs::permissions(shared, fs::perms(01777));
  CHECK(moetune::nvrtc_folders_of(shared / "moetune").empty());
  fs::permissions(project / "build/cuda", fs::perms(0777));
  CHECK(moetune::nvrtc_folders_of(binary) == Folders{binary.parent_path()});
  if (::geteuid() != 0) return;
  fs::permissions(project / "build/cuda", fs::perms(0755));
  REQUIRE(::chown((project / packages).c_str(), 65534, 65534) == 0);
  CHECK(moetune::nvrtc_folders_of(binary) == Folders{binary.parent_path()});
}

TEST_CASE("where there is no NVRTC the error lists the places and a way out") {
  NvrtcSearch search;
  search.folders = {"/nowhere/a", "/nowhere/b"};
  search.loader_path = false;
  try {
    Nvrtc::load(search);
    FAIL("it loaded");
  } catch (const BrokenEnvironment& error) {
    const std::string what = error.what();
    CHECK(what.find("/nowhere/a, /nowhere/b") != std::string::npos);
    CHECK(what.find("MOETUNE_NVRTC") != std::string::npos);
  }
}

TEST_CASE("a library the user insists on is not silently replaced by another") {
  const moetune::TemporaryFolder folder;
  NvrtcSearch search = NvrtcSearch::of_process();
  search.requested = folder.path();
  CHECK_THROWS_AS(Nvrtc::load(search), BrokenEnvironment);
  search.requested = folder.path() / "libnvrtc.so.13";
  std::ofstream(search.requested) << "no library";
  CHECK_THROWS_AS(Nvrtc::load(search), BrokenEnvironment);
}

TEST_CASE("a library that is no NVRTC is named with what it lacks") {
  NvrtcSearch search;
  search.requested = "libm.so.6";
  try {
    Nvrtc::load(search);
    FAIL("it loaded");
  } catch (const BrokenEnvironment& error) {
    CHECK(std::string(error.what()).find("libm.so.6 has no nvrtcGetErrorString") != std::string::npos);
  }
}

TEST_CASE("a whole version and the architectures come from the library itself") {
  const auto nvrtc = Nvrtc::load();
  CHECK(std::count(nvrtc->facts().version.begin(), nvrtc->facts().version.end(), '.') == 2);
  CHECK(std::find(nvrtc->facts().architectures.begin(), nvrtc->facts().architectures.end(), 80) !=
        nvrtc->facts().architectures.end());
  CHECK(Nvrtc::load() == nvrtc);
}

// The test below runs this one again with another NVRTC.
TEST_CASE("NVRTC and its builtins come from one folder") {
  const fs::path folder = fs::canonical(Nvrtc::load()->facts().path).parent_path();
  std::ifstream maps("/proc/self/maps");
  int builtins = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libnvrtc-builtins.so") == std::string::npos) continue;
    CHECK(fs::path(line.substr(line.find('/'))).parent_path() == folder);
    ++builtins;
  }
  CHECK(builtins > 0);
  if (const char* requested = std::getenv("MOETUNE_NVRTC")) CHECK(folder == fs::canonical(requested));
}

TEST_CASE("an NVRTC that the loader knows nothing of finds the builtins beside it") {
  const fs::path library = Nvrtc::load()->facts().path;
  const moetune::TemporaryFolder folder;
  fs::copy_file(library, folder.path() / library.filename());
  for (const fs::path& builtins : moetune::versioned_files(library.parent_path(), "libnvrtc-builtins.so.")) {
    fs::copy_file(builtins, folder.path() / builtins.filename());
  }
  const std::string command = "MOETUNE_NVRTC=" + folder.path().string() + " " +
                              fs::read_symlink("/proc/self/exe").string() +
                              " --test-case='NVRTC and its builtins come from one folder' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("an option that NVRTC does not know is told apart from bad source") {
  const auto nvrtc = Nvrtc::load();
  NvrtcJob job;
  job.sources = {{"k.cu", "extern \"C\" __global__ void k() {}"}};
  job.options = {"--gpu-architecture=sm_80", "--no-such-option"};
  CHECK(nvrtc->compile(job).status == NvrtcResult::Status::bad_option);
  job.options.pop_back();
  CHECK(nvrtc->compile(job).status == NvrtcResult::Status::ok);
  job.sources[0].text = "extern \"C\" __global__ void k() { nothing(); }";
  CHECK(nvrtc->compile(job).status == NvrtcResult::Status::rejected);
}
