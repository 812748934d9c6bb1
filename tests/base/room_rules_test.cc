// What rooms must not know or do, held by reading their sources. Which room may include which is in
// layering_test.cc.
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

bool holds_sources(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".cc") return true;
  }
  return false;
}

// Every folder of C++ at the root, but for what is no room and `others`.
std::set<std::string> rooms_but(const std::set<std::string>& others) {
  static const std::set<std::string> no_rooms = {"bench", "examples", "python", "tests"};
  std::set<std::string> rooms;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(paths::source()))) {
    const std::string name = entry.path().filename().string();
    const bool is_built = name.starts_with("build") || name.starts_with(".") || name == "dist";
    if (entry.is_directory() && !is_built && !no_rooms.contains(name) && !others.contains(name) &&
        holds_sources(entry.path()))
      rooms.insert(name);
  }
  return rooms;
}

std::vector<Source> sources_of(const std::set<std::string>& rooms) {
  const fs::path root = paths::source();
  std::vector<Source> sources;
  for (const std::string& room : rooms) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room)) {
      const std::string kind = entry.path().extension().string();
      if (kind != ".h" && kind != ".cc") continue;
      sources.push_back({fs::relative(entry.path(), root).generic_string(), moetune::testing::read_text(entry.path())});
    }
  }
  return sources;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(paths::source("spaces")))
    names.push_back(entry.path().stem().string());
  return names;
}

// "path:line" of every line of code, comments left out, in which `pattern` is found and `excused` is not.
std::string lines_with(const std::vector<Source>& sources, const std::regex& pattern, const std::regex& excused) {
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
  static const std::regex printing("std::(cout|cerr|clog)\\b|\\b(f|v|vf)?printf\\(|\\bf?put[cs]\\(|<iostream>");
  return lines_with(sources, printing, std::regex("^#error"));
}

// The files that define each type in namespace moetune itself, where programs that link several rooms see it.
std::map<std::string, std::set<std::string>> shared_types(const std::vector<Source>& sources) {
  static const std::regex opened("^(inline )?namespace ?([A-Za-z_:]*) ?\\{"), closed("^\\}  // namespace"),
      defined("^(struct|class|union|enum class) ([A-Za-z0-9_]+)( final)?( :.*| \\{.*)?$");
  std::map<std::string, std::set<std::string>> types;
  for (const Source& source : sources) {
    std::vector<std::string> inside;
    std::istringstream text(source.text);
    std::smatch found;
    for (std::string line; std::getline(text, line);) {
      if (std::regex_search(line, found, opened))
        inside.push_back(found[2]);
      else if (std::regex_search(line, closed) && !inside.empty())
        inside.pop_back();
      else if (inside == std::vector<std::string>{"moetune"} && std::regex_match(line, found, defined))
        types[found[2]].insert(source.path);
    }
  }
  return types;
}

// "Name: a.h b.h" of every type that two files define: the linker would keep one and use it for both.
std::string types_defined_twice(const std::vector<Source>& sources) {
  std::string twice;
  for (const auto& [name, files] : shared_types(sources)) {
    if (files.size() < 2) continue;
    twice += name + ":";
    for (const std::string& file : files) twice += " " + file;
    twice += "\n";
  }
  return twice;
}

// "kName: file header" of a file's own constants that a header has too: files that are compiled behind it would take
// its own for the header's.
std::string hidden_constants(const std::vector<Source>& sources) {
  static const std::regex constant("\\b(k[A-Z][A-Za-z0-9]*)(?= = |\\{|\\[)");
  std::map<std::string, std::string> of_headers;
  std::vector<std::pair<std::string, std::string>> own;
  for (const Source& source : sources) {
    std::istringstream text(source.text);
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("constexpr ") && !line.starts_with("inline constexpr ")) continue;
      for (std::sregex_iterator found(line.begin(), line.end(), constant); found != std::sregex_iterator(); ++found) {
        if (source.path.ends_with(".h"))
          of_headers[(*found)[1]] = source.path;
        else
          own.emplace_back((*found)[1], source.path);
      }
    }
  }
  CHECK(of_headers.size() >= std::min<std::size_t>(sources.size() / 20, 20));
  std::string hidden;
  for (const auto& [name, file] : own) {
    if (const auto header = of_headers.find(name); header != of_headers.end())
      hidden += name + ": " + file + " " + header->second + "\n";
  }
  return hidden;
}

// "path:line" of every comment that does not begin with a verb or the thing it names.
std::string riddles(const std::vector<Source>& sources) {
  static const std::regex riddle("^(//|/\\*) (Of|What|Who|Whose|Which) ");
  std::string found;
  for (const Source& source : sources) {
    std::istringstream text(source.text);
    bool was_comment = false;
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      line.erase(0, line.find_first_not_of(' '));
      const bool is_comment = line.starts_with("// ") || line.starts_with("/* ");
      if (is_comment && !was_comment && std::regex_search(line, riddle))
        found += source.path + ":" + std::to_string(number) + "\n";
      was_comment = is_comment;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("the rooms are the folders") {
  const std::set<std::string> all = rooms_but({});
  CHECK(all.size() >= 16);
  for (const char* room : {"base", "cli", "ranges", "report", "serve", "sync", "workloads"}) CHECK(all.contains(room));
  for (const char* other : {"build", "templates", "tests"}) CHECK_FALSE(all.contains(other));
  CHECK_FALSE(rooms_but({"cli"}).contains("cli"));
}

TEST_CASE("random bytes are the kernel's: std::random_device would want glibc 2.36") {
  CHECK(lines_with(sources_of(rooms_but({})), std::regex("std::random_device"), std::regex("$^")) == "");
}

TEST_CASE("no room but kernels knows a kernel by name") {
  const std::set<std::string> yardsticks = {"jobs/calibrate_job.cc",       // by which ceilings are measured
                                            "jobs/session/gpu_speed.cc"};  // and GPUs compared
  CHECK(kernel_names().size() >= 3);
  CHECK(lines_naming_kernels(without(sources_of(rooms_but({"kernels"})), yardsticks)) == "");
  CHECK(lines_naming_kernels({{"cli/a.cc", "if (kernel == \"decode_attention\") {}\n"}}) == "cli/a.cc:1\n");
  CHECK(lines_naming_kernels({{"cli/a.cc", "// as decode_attention does\n\"moetune search decode_kernel\"\n"}}) == "");
}

TEST_CASE("only the command line prints, and child processes their last words") {
  const std::set<std::string> last_words = {"tuner/process/child_main.cc", "tuner/compile/compile_child.cc"};
  CHECK(lines_printing(without(sources_of(rooms_but({"cli"})), last_words)) == "");
  CHECK(lines_printing({{"jobs/a.cc", "std::cerr << 1;\nstd::printf(\"\");\nsnprintf(buffer, 1, \"\");\n"}}) ==
        "jobs/a.cc:1\njobs/a.cc:2\n");
}

TEST_CASE("no two rooms give different types one name") {
  std::set<std::string> linked_together = rooms_but({});
  linked_together.insert({"bench", "tests"});
  CHECK(shared_types(sources_of(linked_together)).size() > 100);
  CHECK(types_defined_twice(sources_of(linked_together)) == "");
  const std::string begin = "namespace moetune {\n", end = "}  // namespace moetune\n", type = "struct A {\n};\n",
                    hidden = "namespace {\n" + type + "}  // namespace\n";
  CHECK(types_defined_twice({{"a.h", begin + type + end}, {"b.cc", begin + type + end}}) == "A: a.h b.cc\n");
  CHECK(types_defined_twice({{"a.h", begin + type + end}, {"b.cc", begin + hidden + "struct A;\n" + end}}) == "");
}

TEST_CASE("no file hides a header's constant from those that are compiled behind it") {
  CHECK(hidden_constants(sources_of(rooms_but({}))) == "");
  CHECK(hidden_constants({{"a.h", "inline constexpr int kMost = 2, kLeast = 1;\n"},
                          {"b.cc", "constexpr double kLeast = 3;\nconstexpr int kOther{4};\n"}}) ==
        "kLeast: b.cc a.h\n");
}

TEST_CASE("comments begin with a verb or the thing they name") {
  std::set<std::string> rooms = rooms_but({});
  rooms.insert({"bench", "python/src"});
  CHECK(riddles(sources_of(rooms)) == "");
  CHECK(riddles({{"a.h", "// Of an object.\nint f();\n  // What it holds.\n"}}) == "a.h:1\na.h:3\n");
  CHECK(riddles({{"a.h", "/* What it holds. */\nint f(void);\n"}}) == "a.h:1\n");
  CHECK(riddles({{"a.h", "// Holds words.\n// Of these, none.\nint of;  // What.\n"}}) == "");
}
