// Files that change in one step, or not at all.
#include "base/replace_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/regular_file.h"
#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a file is made, and replaced whole") {
  const TemporaryFolder folder;
  replace_file(folder / "a", "one");
  replace_file(folder / "a", "two", Durable::yes);
  CHECK(read_regular_file(folder / "a", 100) == "two");
  CHECK(folder.count() == 1);
}

TEST_CASE("a pipe, a device and a folder stay what they are") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_directory(folder / "folder");
  fs::create_symlink("/dev/null", folder / "device");
  CHECK_THROWS_WITH_AS(replace_file(folder / "pipe", "x"), doctest::Contains("it is no regular file"),
                       BrokenEnvironment);
  CHECK_THROWS_WITH_AS(replace_file(folder / "device", "x"), doctest::Contains("it is no regular file"),
                       BrokenEnvironment);
  CHECK_THROWS_WITH_AS(replace_file(folder / "folder", "x"), doctest::Contains("Is a directory"), BrokenEnvironment);
  CHECK(fs::is_fifo(folder / "pipe"));
  CHECK(fs::is_symlink(folder / "device"));
  CHECK(folder.count() == 3);
}

TEST_CASE("a folder that is missing is said, and nothing is made") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(replace_file(folder / "no" / "a", "x"), doctest::Contains("cannot write"), BrokenEnvironment);
  CHECK(folder.count() == 0);
}

TEST_CASE("what a killed process leaves is recognized, and no file of others") {
  CHECK(replaced_by("a.pack.AbCd12.tmp") == "a.pack");
  CHECK(replaced_by(".AbCd12.tmp") == std::nullopt);
  for (const char* name : {"a.pack.AbCd12", "a.pack.backup", "a.pack.AbCd123.tmp", "a.pack.AbC_12.tmp", "a.tmp", ".tmp",
                           "AbCd12.tmp", ""}) {
    CAPTURE(name);
    CHECK(replaced_by(name) == std::nullopt);
  }
}
