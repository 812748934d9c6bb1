#include "base/regular_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "tests/temporary_folder.h"

namespace fs = std::filesystem;

namespace moetune {

TEST_CASE("only regular files of a bounded size are read, and nothing is waited for") {
  const TemporaryFolder folder;
  std::ofstream(folder / "plain") << "text";
  CHECK(read_regular_file(folder / "plain", 4) == "text");
  CHECK_THROWS_WITH_AS(read_regular_file(folder / "plain", 3), doctest::Contains("is larger than"), BadInput);

  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_regular_file(folder / "pipe", 4), doctest::Contains("pipe is not a regular file"),
                       BadInput);
  fs::create_symlink("pipe", folder / "link");
  CHECK_THROWS_WITH_AS(find_regular_file(folder / "link", 4), doctest::Contains("is not a regular file"), BadInput);
  CHECK_THROWS_WITH_AS(find_regular_file("/dev/zero", 4), "/dev/zero is not a regular file", BadInput);
  CHECK_THROWS_WITH_AS(find_regular_file(folder.path(), 4), doctest::Contains("is a folder, not a file"), BadInput);

  std::ofstream(folder / "sparse") << "x";
  fs::resize_file(folder / "sparse", std::uintmax_t{4} << 30);
  CHECK_THROWS_WITH_AS(read_regular_file(folder / "sparse", 64 << 20), doctest::Contains("larger than 64 MiB"),
                       BadInput);
  for (const char* name : {"pipe", "link", "."}) {
    CHECK_THROWS_AS(require_regular_file(folder / name), BadInput);
    CHECK_THROWS_AS(AppendedFile(folder / name), BadInput);
  }
  require_regular_file(folder / "none");
  CHECK(AppendedFile(folder / "log").write("one\n"));
  CHECK(AppendedFile(folder / "log").write("two\n"));
  CHECK(read_regular_file(folder / "log", 100) == "one\ntwo\n");
  CHECK_THROWS_WITH_AS(AppendedFile(folder / "none/log"), doctest::Contains("cannot write"), BadInput);
  CHECK_FALSE(find_regular_file(folder / "none", 4));
  CHECK_THROWS_WITH_AS(read_regular_file(folder / "none", 4), doctest::Contains("No such file"), BadInput);
}

}  // namespace moetune

TEST_CASE("the time of a file's last change is in nanoseconds") {
  struct stat facts = {};
  facts.st_mtim.tv_sec = 1'800'000'000;
  facts.st_mtim.tv_nsec = 7;
  CHECK(moetune::changed_ns(facts) == 1'800'000'000'000'000'007);
}
