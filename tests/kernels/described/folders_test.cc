#include "kernels/described/folders.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/resources.h"
#include "tests/kernels/described/examples.h"
#include "tests/temporary_folder.h"

using namespace moetune;
using namespace moetune::testing;
namespace fs = std::filesystem;

namespace {

// A folder of its own, with copies of examples.
struct KernelRoot : TemporaryFolder {
  // A copy of vector_add under another name.
  void add(const std::string& name, const std::string& from = "vector_add") const {
    fs::copy(example_folder(from), path() / name, fs::copy_options::recursive);
    std::string text = example_text(from);
    text.replace(text.find(from), from.size(), name);
    std::ofstream(path() / name / "kernel.json") << text;
  }
};

std::vector<std::string> loaded_names(const DescribedKernels& loaded) {
  std::vector<std::string> names;
  for (const auto& kernel : loaded.kernels) names.push_back(kernel->name());
  return names;
}

}  // namespace

TEST_CASE("kernels come from several folders, and their files are resources") {
  const KernelRoot one, two;
  one.add("folders_one");
  one.add("folders_three");
  two.add("folders_two");
  const std::string folders =
      one.path().string() + "/:" + (two.path() / "folders_two").string() + "::" + one.path().string();
  const DescribedKernels loaded = load_described_kernels(folders.c_str(), {});
  CHECK(loaded_names(loaded) == std::vector<std::string>{"folders_one", "folders_three", "folders_two"});
  CHECK(loaded.broken.empty());
  CHECK(find_resource("templates/folders_one/vector_add.cu").has_value());
  CHECK(is_added_file("templates/folders_two/vector_add.cu"));
  CHECK_FALSE(is_added_file("templates/decode_kernel/decode_kernel.cu"));
  CHECK(find_resource("spaces/folders_two.json").has_value());
  CHECK_FALSE(find_resource("templates/folders_one/missing.cu"));
  CHECK_THROWS_WITH(find_resource("templates/folders_one/../folders_three/kernel.json"),
                    doctest::Contains("leads out of its folder"));
  CHECK(list_resources("templates/folders_one").size() == 2);
  CHECK(load_described_kernels(nullptr, {}).kernels.empty());
}

TEST_CASE("a broken folder, and one whose name is taken, harm themselves alone") {
  const KernelRoot one, two;
  one.add("folders_sound");
  one.add("folders_broken");
  one.add("router");
  two.add("folders_sound");
  std::ofstream(one.path() / "folders_broken/kernel.json") << "{\"kernel\": ";
  fs::create_directory(one.path() / "no_kernel");
  fs::create_directories(two.path() / "folders_pipe/kernel.json");  // a folder in its place
  const std::string folders = one.path().string() + ":" + two.path().string() + ":" + (two.path() / "none").string();
  const DescribedKernels loaded = load_described_kernels(folders.c_str(), {"router"});
  CHECK(loaded_names(loaded) == std::vector<std::string>{"folders_sound"});
  REQUIRE(loaded.broken.size() == 5);
  CHECK(loaded.broken[0].name == "folders_broken");
  CHECK(loaded.broken[0].reason.find("kernel.json") != std::string::npos);
  CHECK(loaded.broken[1].reason.find("'router' is a built-in kernel, which a folder cannot replace") !=
        std::string::npos);
  CHECK(loaded.broken[1].reason.find(one.path().string()) != std::string::npos);
  CHECK(loaded.broken[2].name == "folders_pipe");
  CHECK(loaded.broken[3].name == "folders_sound");
  CHECK(loaded.broken[3].reason.find((one.path() / "folders_sound").string()) != std::string::npos);
  CHECK(loaded.broken[3].reason.find((two.path() / "folders_sound").string()) != std::string::npos);
  CHECK(loaded.broken[4].reason == "there is no such folder");
}
