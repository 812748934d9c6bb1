#include "base/resources.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tests/paths.h"
#include "tests/texts.h"

namespace fs = std::filesystem;

TEST_CASE("spaces are embedded byte for byte") {
  const std::vector<std::string> paths = moetune::list_resources("spaces/");
  REQUIRE_FALSE(paths.empty());
  for (const std::string& path : paths) {
    CHECK(moetune::read_resource(path) == moetune::testing::read_text(paths::source(path)));
  }
}

TEST_CASE("a missing file says where it was looked for") {
  CHECK_FALSE(moetune::find_resource("spaces/none.json"));
  CHECK_THROWS_WITH_AS(moetune::read_resource("spaces/none.json"), "no file 'spaces/none.json' in this binary",
                       moetune::BrokenEnvironment);
}

TEST_CASE("MOETUNE_DATA_DIR replaces the embedded files") {
  const fs::path dir = fs::temp_directory_path() / ("moetune_resources_" + std::to_string(::getpid()));
  fs::remove_all(dir);
  fs::create_directories(dir / "spaces");
  std::ofstream(dir / "spaces" / "mine.json") << "{}";
  ::setenv("MOETUNE_DATA_DIR", dir.c_str(), 1);
  CHECK(moetune::list_resources("spaces/") == std::vector<std::string>{"spaces/mine.json"});
  CHECK(moetune::read_resource("spaces/mine.json") == "{}");
  CHECK_THROWS_AS(moetune::read_resource("templates/x"), moetune::BrokenEnvironment);
  std::ofstream(dir.string() + "_secret") << "key";
  const std::string outside = dir.string() + "_secret";
  CHECK_THROWS_WITH_AS(moetune::find_resource("spaces/../../" + fs::path(outside).filename().string()),
                       doctest::Contains("leads out of MOETUNE_DATA_DIR"), moetune::BadInput);
  CHECK_THROWS_AS(moetune::find_resource(outside), moetune::BadInput);
  fs::create_symlink(outside, dir / "spaces" / "link.json");
  CHECK_THROWS_AS(moetune::find_resource("spaces/link.json"), moetune::BadInput);
  REQUIRE(::mkfifo((dir / "spaces" / "pipe.json").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(moetune::find_resource("spaces/pipe.json"), doctest::Contains("not a regular file"),
                       moetune::BadInput);
  fs::remove(outside);
  ::unsetenv("MOETUNE_DATA_DIR");
  fs::remove_all(dir);
}
