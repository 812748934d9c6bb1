// What rooms must not know or do, held by reading their sources. Which room may include which is in
// layering_test.cc.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Source {
  std::string path;  // from the repository root
  std::string text;
};

std::vector<Source> sources_of(const std::set<std::string>& rooms) {
  const fs::path root = MOETUNE_SOURCE_DIR;
  std::vector<Source> sources;
  for (const std::string& room : rooms) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string kind = entry.path().extension().string();
      if (kind != ".h" && kind != ".cc") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      sources.push_back({fs::relative(entry.path(), root).generic_string(),
                         std::string(std::istreambuf_iterator<char>(in), {})});
    }
  }
  return sources;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(MOETUNE_SOURCE_DIR) / "spaces"))
    names.push_back(entry.path().stem().string());
  return names;
}

// "path:line" of every line of code, comments left out, in which `pattern` is found and `excused` is not.
std::string lines_with(const std::vector<Source>& sources, const std::regex& pattern,
                       const std::regex& excused) {
  std::string found;
  for (const Source& source : sources) {
    std::istringstream text(source.text);
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      const std::string code = line.substr(0, line.find("//"));
      if (std::regex_search(code, pattern) && !std::regex_search(code, excused))
        found += source.path + ":" + std::to_string(number) + "\n";
    }
  }
  return found;
}

// Without files that may: each with a reason.
std::vector<Source> without(std::vector<Source> sources, const std::set<std::string>& files) {
  std::erase_if(sources, [&](const Source& source) { return files.contains(source.path); });
  return sources;
}

// Lines that name a kernel, but for examples of commands.
std::string lines_naming_kernels(const std::vector<Source>& sources) {
  std::string names;
  for (const std::string& name : kernel_names()) names += (names.empty() ? "" : "|") + name;
  return lines_with(sources, std::regex("\\b(" + names + ")\\b"), std::regex("moetune search|KERNEL:CONFIG"));
}

std::string lines_printing(const std::vector<Source>& sources) {
  static const std::regex printing(
      "std::(cout|cerr|clog)\\b|\\b(f|v|vf)?printf\\(|\\bf?put[cs]\\(|<iostream>");
  return lines_with(sources, printing, std::regex("^#error"));
}

}  // namespace

TEST_CASE("no room but kernels knows a kernel by name") {
  const std::set<std::string> rooms = {"base",  "search", "cache", "launch", "runtime",
                                       "tuner", "replay", "jobs",  "cli"};
  const std::set<std::string> yardsticks = {"jobs/calibrate_job.cc"};  // by which ceilings are measured
  CHECK(kernel_names().size() >= 3);
  CHECK(lines_naming_kernels(without(sources_of(rooms), yardsticks)) == "");
  CHECK(lines_naming_kernels({{"cli/a.cc", "if (kernel == \"decode_attention\") {}\n"}}) == "cli/a.cc:1\n");
  CHECK(lines_naming_kernels(
            {{"cli/a.cc", "// as decode_attention does\n\"moetune search decode_kernel\"\n"}}) == "");
}

TEST_CASE("only the command line prints, and child processes their last words") {
  const std::set<std::string> rooms = {"base",    "search", "kernels", "cache", "launch",
                                       "runtime", "tuner",  "replay",  "jobs"};
  const std::set<std::string> last_words = {"tuner/process/child_main.cc", "tuner/compile/compile_child.cc"};
  CHECK(lines_printing(without(sources_of(rooms), last_words)) == "");
  CHECK(
      lines_printing({{"jobs/a.cc", "std::cerr << 1;\nstd::printf(\"\");\nsnprintf(buffer, 1, \"\");\n"}}) ==
      "jobs/a.cc:1\njobs/a.cc:2\n");
}
