// docs/environment.md lists every variable that something of the project reads, and nothing else.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/source.h"
#include "tests/paths.h"
#include "tests/texts.h"

namespace fs = std::filesystem;
using moetune::testing::Source;

namespace {

// Read by libraries and programs that moetune's own stand on, on its behalf.
const std::set<std::string> kReadByOthers = {"CUDA_VISIBLE_DEVICES", "SSL_CERT_DIR", "SSL_CERT_FILE"};

std::vector<Source> all_sources() {
  std::vector<Source> sources;
  const fs::path root = paths::source();
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() &&
        (name.starts_with(".") || name.starts_with("build") || name == "dist" || name == "docs" || name == "replay"))
      entry.disable_recursion_pending();
    if (!entry->is_regular_file() || fs::file_size(*entry) > (1 << 20)) continue;
    sources.push_back({fs::relative(entry->path(), root).generic_string(), moetune::testing::read_text(entry->path())});
  }
  return sources;
}

void collect(const std::string& text, const char* pattern, std::set<std::string>& names) {
  const std::regex expression(pattern);
  for (std::sregex_iterator one(text.begin(), text.end(), expression), end; one != end; ++one) names.insert((*one)[1]);
}

// The variables that a source reads. One that asks for a name in a variable may ask for every such string in it.
std::set<std::string> read_by(const Source& source) {
  std::set<std::string> names;
  const std::string kind = fs::path(source.path).extension().string();
  if (kind == ".cc" || kind == ".h" || kind == ".hpp") {
    collect(source.text, R"re(\b(?:getenv|environment_variable)\("([A-Z][A-Z0-9_]+)"\))re", names);
    if (std::regex_search(source.text, std::regex(R"(\b(?:getenv|environment_variable)\([^")])")))
      collect(source.text, R"re("((?:[A-Z]+_[A-Z0-9_]+)|HOME|LANG|PATH|PAGER|TERM)")re", names);
    if (source.text.find("temp_directory_path()") != std::string::npos) names.insert("TMPDIR");
  } else if (kind == ".py" || source.text.starts_with("#!/usr/bin/env python3")) {
    collect(source.text, R"re(environ(?:ment)?(?:\.get\(|\[)["']([A-Z][A-Z0-9_]+)["'])re", names);
    if (source.text.find("os.environ") != std::string::npos)
      collect(source.text, R"re(\n_[A-Z]+ = "([A-Z]+_[A-Z0-9_]+)")re", names);
  } else if (kind == ".sbatch" || source.text.starts_with("#!/usr/bin/env bash")) {
    collect(source.text, R"re(\$\{([A-Z][A-Z0-9_]+):?[-?+])re", names);
  }
  return names;
}

// What moetune, its library and its package read is the first table's; what else the project's scripts and tests do
// is the second's.
bool is_for_users(const std::string& path) {
  static const std::regex others("(tests|bench|scripts|packaging|examples)/.*|CMakeLists.txt");
  return !std::regex_match(path, others);
}

std::set<std::string> listed(const std::string& page, const char* first, const char* end) {
  const std::size_t from = page.find(first);
  REQUIRE(from != std::string::npos);
  std::set<std::string> names;
  std::istringstream part(page.substr(from, page.find(end, from) - from));
  for (std::string line; std::getline(part, line);) {
    if (!line.starts_with("| `")) continue;
    collect(line.substr(0, line.find(" | ")), "`([A-Z][A-Z0-9_]+)`", names);
  }
  return names;
}

std::string in_first_alone(const std::set<std::string>& first, const std::set<std::string>& second) {
  std::string names;
  for (const std::string& name : first) names += second.contains(name) ? "" : name + " ";
  return names;
}

}  // namespace

TEST_CASE("the page of environment variables lists all that the project reads, and nothing else") {
  std::set<std::string> users = kReadByOthers, others, to_list;
  for (const Source& source : all_sources()) {
    if (source.path == "tests/base/environment_test.cc") continue;  // whose names are made up
    const bool is_test = source.path.starts_with("tests/") || source.path.starts_with("bench/");
    for (const std::string& name : read_by(source)) {
      (is_for_users(source.path) ? users : others).insert(name);
      // What one test tells its own programs is nobody's to set.
      if (!is_for_users(source.path) && (!is_test || name.starts_with("MOETUNE_"))) to_list.insert(name);
    }
  }
  std::erase_if(to_list, [&](const std::string& name) { return users.contains(name); });
  const std::string page = moetune::testing::read_text(paths::source("docs/environment.md"));
  const std::set<std::string> first = listed(page, "# Environment variables", "\n## "),
                              second = listed(page, "\n## Scripts and tests", "\n## end");
  CHECK(in_first_alone(users, first) == "");
  CHECK(in_first_alone(first, users) == "");
  CHECK(in_first_alone(to_list, second) == "");
  CHECK(in_first_alone(second, others) == "");
}

TEST_CASE("a variable is found however a source asks for it") {
  using Names = std::set<std::string>;
  CHECK(read_by({"a.cc", "std::getenv(\"MOETUNE_A\")"}) == Names{"MOETUNE_A"});
  CHECK(read_by({"a.cc", "getenv(name); find(\"XDG_A\"), find(\"HOME\"), fail(\"NVRTC\")"}) == Names{"HOME", "XDG_A"});
  CHECK(read_by({"a.cc", "find(\"XDG_A\")"}).empty());
  CHECK(read_by({"a.py", "os.environ.get(\"A_B\"), os.environ['C_D']"}) == Names{"A_B", "C_D"});
  CHECK(read_by({"a.py", "import os\n_X = \"A_B\"\nos.environ[_X]"}) == Names{"A_B"});
  CHECK(read_by({"a", "#!/usr/bin/env bash\n${A_B:-c} ${D_E:?f} ${G_H}"}) == Names{"A_B", "D_E"});
}
