// No file of the project is empty but those whose being there is all that they say: an empty script does nothing and
// ends with 0, which passes for success.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/paths.h"
#include "tests/temporary_folder.h"
#include "tests/texts.h"

namespace fs = std::filesystem;

namespace {

const std::set<std::string> kMayBeEmpty = {"python/moetune/py.typed"};

bool holds_nothing(const fs::path& file) {
  if (fs::file_size(file) > 4096) return false;
  return moetune::testing::read_text(file).find_first_not_of(" \t\r\n") == std::string::npos;
}

std::string empty_files(const fs::path& root) {
  std::string found;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    const bool is_made = name == ".git" || name == ".venv" || name.starts_with("build") || name == "dist" ||
                         name == "__pycache__" || name.starts_with(".cache");
    if (entry->is_directory() && is_made) entry.disable_recursion_pending();
    const std::string path = fs::relative(entry->path(), root).generic_string();
    if (entry->is_regular_file() && !kMayBeEmpty.contains(path) && holds_nothing(entry->path())) found += path + "\n";
  }
  return found;
}

}  // namespace

TEST_CASE("no file of the project is empty") {
  CHECK(empty_files(paths::source()) == "");
  for (const std::string& file : kMayBeEmpty) CHECK(fs::exists(paths::source(file)));
}

TEST_CASE("an empty file is found, and one of blanks") {
  const moetune::TemporaryFolder folder;
  fs::create_directories(folder / "scripts");
  std::ofstream(folder / "scripts" / "full") << "#!/bin/sh\n";
  CHECK(empty_files(folder.path()) == "");
  std::ofstream(folder / "scripts" / "blank") << " \n\n";
  std::ofstream(folder / "empty").flush();
  const std::string found = empty_files(folder.path());
  CHECK(found.find("scripts/blank\n") != std::string::npos);
  CHECK(found.find("empty\n") != std::string::npos);
  CHECK(found.find("full") == std::string::npos);
}
