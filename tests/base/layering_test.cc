// The architecture, held by reading the sources: which room may include which, where each vendor's headers
// live, and how long a file may grow. What is wrong is printed, a line each.
#include <doctest/doctest.h>

#include <algorithm>
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

// A room, which is a folder with sources, and what it may include besides itself; an inner room has its own entry.
using Arrows = std::map<std::string, std::set<std::string>>;

// CMakeLists.txt says them; a configured build has a line `ROOM: ROOM...` of each.
Arrows read_arrows(std::istream& lines) {
  Arrows arrows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string room;
    std::getline(words, room, ':');
    std::set<std::string>& allowed = arrows[room];
    for (std::string other; words >> other;) allowed.insert(other);
  }
  return arrows;
}

const Arrows& arrows() {
  static const Arrows known = [] {
    std::ifstream lines(paths::arrows());
    return read_arrows(lines);
  }();
  return known;
}

// Rooms from which one comes back to them, whatever lies inside them.
std::set<std::string> circles(const Arrows& known) {
  const auto outer = [](const std::string& room) { return room.substr(0, room.find('/')); };
  Arrows reached;
  for (const auto& [room, allowed] : known) {
    for (const std::string& other : allowed) {
      if (outer(other) != outer(room)) reached[outer(room)].insert(outer(other));
    }
  }
  for (std::size_t round = 0; round < known.size(); ++round) {
    for (auto& [room, others] : reached) {
      for (const std::string& other : std::set<std::string>(others))
        others.insert(reached[other].begin(), reached[other].end());
    }
  }
  std::set<std::string> wrong;
  for (const auto& [room, others] : reached) {
    if (others.contains(room)) wrong.insert(room);
  }
  return wrong;
}

// Structs without behaviour, which both inner rooms of tuner/ speak in, each with the loop and with the
// other.
const std::set<std::string> kPlainData = {"tuner/device.h", "tuner/compile/build.h"};

struct Vendor {
  std::string name;
  std::regex header;
  std::string home;
  bool one_file;
};

const std::vector<Vendor> kVendors = {
    {"the CUDA driver", std::regex("cuda[A-Za-z_]*\\.h|cuda/.*"), "launch", true},
    {"NVRTC", std::regex("nvrtc\\.h"), "tuner/compile", true},
    {"NVML", std::regex("nvml\\.h"), "tuner/worker", true},
    {"SQLite", std::regex("sqlite3.*\\.h|SQLiteCpp/.*"), "cache", false},
    {"Boost.Program_options", std::regex("boost/program_options.*"), "cli", false},
    {"the rest of Boost", std::regex("boost/(?!program_options).*"), "http", false},
    {"OpenSSL", std::regex("openssl/.*"), "http", false},
    {"libsodium", std::regex("sodium(/.*)?\\.h"), "base", true},
};

constexpr int kLongestFile = 600;
constexpr int kLongestFunction = 60;

// The width of a line, in characters, by .editorconfig.
std::ptrdiff_t longest_line() {
  static const std::ptrdiff_t width = [] {
    std::ifstream config(paths::source(".editorconfig"));
    const std::string key = "max_line_length = ";
    for (std::string line; std::getline(config, line);)
      if (line.starts_with(key)) return std::stol(line.substr(key.size()));
    return 0L;
  }();
  return width;
}

// The folder; "" for a file beside none.
std::string room_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::vector<std::string> includes_of(const Source& source) {
  static const std::regex directive("^[ \\t]*#[ \\t]*include[ \\t]*[<\"]([^>\"]+)[>\"]");
  std::vector<std::string> headers;
  std::istringstream lines(source.text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, directive)) headers.push_back(match[1]);
  }
  return headers;
}

std::vector<std::string> wrong_arrows(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    const std::string room = room_of(source.path);
    const auto allowed = arrows().find(room);
    if (allowed == arrows().end()) {
      wrong.push_back(source.path + " is in a room without a place in the order");
      continue;
    }
    for (const std::string& header : includes_of(source)) {
      const std::string target = room_of(header);
      if (!arrows().contains(target) || target == room || allowed->second.contains(target)) continue;
      if (room.starts_with("tuner/") && kPlainData.contains(header)) continue;
      wrong.push_back(source.path + " includes " + header);
    }
  }
  return wrong;
}

std::vector<std::string> homeless_vendors(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Vendor& vendor : kVendors) {
    std::set<std::string> at_home;
    for (const Source& source : sources) {
      const std::vector<std::string> headers = includes_of(source);
      const bool uses = std::any_of(headers.begin(), headers.end(),
                                    [&](const std::string& header) { return std::regex_match(header, vendor.header); });
      if (!uses) continue;
      if (room_of(source.path) == vendor.home || source.path.starts_with(vendor.home + "/")) {
        at_home.insert(source.path);
      } else {
        wrong.push_back(source.path + " includes " + vendor.name + ", whose home is " + vendor.home);
      }
    }
    if (vendor.one_file && at_home.size() > 1)
      wrong.push_back(vendor.name + " is included by " + *at_home.begin() + " and " + *at_home.rbegin());
  }
  return wrong;
}

// Text from outside is bounded before it is parsed, which base/json.cc alone sees to.
std::vector<std::string> unbounded_parses(const std::vector<Source>& sources) {
  static const std::regex parse("[Jj]son::(sax_)?(parse|accept)\\(|Document::parse\\(");
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    const bool home = source.path == "base/json.cc" || source.path == "replay/json_rows.cc";
    if (!home && std::regex_search(source.text, parse)) wrong.push_back(source.path + " parses JSON itself");
  }
  return wrong;
}

// Set and empty is not set: base/environment.h sees to it.
std::vector<std::string> readers_of_variables(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    if (source.path != "base/environment.h" && source.text.find("getenv(") != std::string::npos)
      wrong.push_back(source.path + " reads the environment itself");
  }
  return wrong;
}

// A file that a user names may be a pipe, which base/regular_file.h does not wait for.
std::vector<std::string> openers_of_files(const std::vector<Source>& sources) {
  static const std::set<std::string> apart = {
      "cache/file/companions.cc",                             // once its kind is known
      "cli/cache_extract.cc",      "cli/compile_command.cc",  // in a folder, or of a name, that is new
      "retune/memory.cc",          "retune/night_lock.cc",
      "serve/run/memory_watch.cc", "tuner/compile/compile_child.cc",
      "tuner/process/guard.cc",    "tuner/worker/numa.cc"};  // /proc
  static const std::regex opens("std::[io]?fstream[ (]|fopen\\(");
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    const bool is_apart = apart.contains(source.path) || source.path.starts_with("bench/");
    if (!is_apart && std::regex_search(source.text, opens)) wrong.push_back(source.path + " opens files itself");
  }
  return wrong;
}

std::vector<std::string> long_files(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    const auto lines = std::count(source.text.begin(), source.text.end(), '\n');
    if (lines > kLongestFile) wrong.push_back(source.path + " has " + std::to_string(lines) + " lines");
  }
  return wrong;
}

// Lines of JSON within a test are data.
std::vector<std::string> long_lines(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    std::istringstream text(source.text);
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
      const auto starts_character = [](char c) { return (c & 0xC0) != 0x80; };
      const bool is_data = line.find("\": ") != std::string::npos;
      if (std::count_if(line.begin(), line.end(), starts_character) > longest_line() && !is_data)
        wrong.push_back(source.path + ":" + std::to_string(number) + " is longer than " +
                        std::to_string(longest_line()) + " characters");
    }
  }
  return wrong;
}

// By indentation: a function outside or inside a class ends at a brace in the first or third column. Tables
// of data count as none.
std::vector<std::string> long_functions(const std::vector<Source>& sources) {
  static const std::regex data("^ *((namespace|class|struct|enum|union)\\b|extern \"C\" \\{)|= \\{$");
  std::vector<std::string> wrong;
  for (const Source& source : sources) {
    std::istringstream text(source.text);
    std::map<std::size_t, std::pair<int, std::string>> opened;  // by indentation: the last line there, and its number
    int number = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      const std::size_t indent = line.find_first_not_of(' ');
      if (indent != 0 && indent != 2) continue;
      const bool closes = line.substr(indent) == "}" && opened.contains(indent);
      const auto& [first, opener] = opened[indent];
      if (closes && number - first >= kLongestFunction && opener.find('(') != std::string::npos &&
          !std::regex_search(opener, data))
        wrong.push_back(source.path + ":" + std::to_string(first) + " has " + std::to_string(number - first + 1) +
                        " lines");
      if (line[indent] != '/' && line[indent] != '#') opened[indent] = {number, line};
    }
  }
  return wrong;
}

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds = {".h", ".cc", ".cu", ".cuh"};
  return kinds.contains(path.extension().string());
}

// The C++ and CUDA sources below the folders of the repository's root for which `wanted` holds.
template <typename Wanted>
std::vector<Source> read_sources(Wanted&& wanted) {
  const fs::path root = paths::source();
  std::vector<Source> sources;
  for (const fs::directory_entry& folder : fs::directory_iterator(root)) {
    if (!folder.is_directory() || !wanted(folder.path().filename().string())) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      sources.push_back({fs::relative(entry.path(), root).generic_string(), moetune::testing::read_text(entry.path())});
    }
  }
  return sources;
}

bool is_house(const std::string& folder) { return !folder.starts_with('.') && folder != "build" && folder != "shared"; }

bool is_room(const std::string& folder) {
  // include/ holds the C ABI, which stands outside the order; templates are device code; examples and the Python
  // package are programs of users; packaging says what is linked.
  static const std::set<std::string> none = {"tests", "templates", "include", "examples", "python", "packaging"};
  return is_house(folder) && !none.contains(folder);
}

std::vector<Source> rooms() { return read_sources(is_room); }

using Complaints = std::vector<std::string>;

std::string lines(const Complaints& complaints) {
  std::string text;
  for (const std::string& complaint : complaints) text += complaint + "\n";
  return text;
}

// In the house only the runtime, and what measures it, may include the public headers.
Complaints strays(const std::vector<Source>& sources) {
  Complaints wrong;
  for (const Source& source : sources) {
    const std::string room = room_of(source.path);
    for (const std::string& header : includes_of(source)) {
      const bool may = room == "runtime" || room == "bench";
      if (header.starts_with("include/") && !may) wrong.push_back(source.path + " includes " + header);
    }
  }
  return wrong;
}

// Rooms of the order that have no source, and rooms or data that it names and that are none.
Complaints phantoms(const std::vector<Source>& sources) {
  std::set<std::string> found, files;
  for (const Source& source : sources) {
    found.insert(room_of(source.path));
    files.insert(source.path);
  }
  Complaints wrong;
  for (const auto& [room, allowed] : arrows()) {
    if (!found.contains(room)) wrong.push_back("the order has " + room + ", where there is no source");
    for (const std::string& target : allowed) {
      if (!arrows().contains(target)) wrong.push_back(room + " may include " + target + ", which is no room");
    }
  }
  for (const std::string& header : kPlainData) {
    if (!files.contains(header)) wrong.push_back("there is no " + header);
  }
  return wrong;
}

}  // namespace

TEST_CASE("every room of the order is there") { CHECK(lines(phantoms(rooms())) == ""); }

TEST_CASE("includes point down") {
  CHECK(lines(wrong_arrows(rooms())) == "");
  CHECK(circles(arrows()).empty());
  std::istringstream circle("base:\nlaunch: base jobs/stored\njobs/stored: launch base\njobs: jobs/stored launch\n");
  CHECK(circles(read_arrows(circle)) == std::set<std::string>{"jobs", "launch"});
}

TEST_CASE("every vendor's headers have one home") { CHECK(lines(homeless_vendors(rooms())) == ""); }

TEST_CASE("JSON is parsed in one place") {
  CHECK(lines(unbounded_parses(rooms())) == "");
  CHECK(lines(unbounded_parses({{"cache/a.cc", "const Json json = Json::parse(text);"}})) ==
        "cache/a.cc parses JSON itself\n");
}

TEST_CASE("variables are read, and files are opened, in one place") {
  CHECK(lines(readers_of_variables(rooms())) == "");
  CHECK(lines(readers_of_variables({{"cli/a.cc", "std::getenv(\"HOME\")"}})) ==
        "cli/a.cc reads the environment itself\n");
  CHECK(lines(openers_of_files(rooms())) == "");
  CHECK(lines(openers_of_files({{"cli/a.cc", "std::ofstream out(path);"}})) == "cli/a.cc opens files itself\n");
}

TEST_CASE("only the runtime, and what measures it, include the public headers") {
  CHECK(lines(strays(rooms())) == "");
  CHECK(lines(strays({{"jobs/a.cc", "#include \"include/moetune.h\"\n"},
                      {"runtime/a.cc", "#include \"include/moetune.h\"\n"}})) ==
        "jobs/a.cc includes include/moetune.h\n");
}

TEST_CASE("no file is longer than 600 lines") { CHECK(lines(long_files(read_sources(is_house))) == ""); }

TEST_CASE("no line is longer than 120 characters") {
  CHECK(lines(long_lines(read_sources(is_house))) == "");
  CHECK(lines(long_lines({{"a.cc", std::string(121, 'a')}})) == "a.cc:1 is longer than 120 characters\n");
  CHECK(lines(long_lines({{"a.cc", "// " + std::string(117, 'a')}})) == "");
}

TEST_CASE("an arrow that points up is seen, a room's own header and an equal word are not one") {
  CHECK(lines(wrong_arrows({{"search/space.cc", "  #  include \"cache/cache.h\"\n"}})) ==
        "search/space.cc includes cache/cache.h\n");
  CHECK(lines(wrong_arrows({{"base/a.cc", "#include <tuner/device.h>\n"}})) == "base/a.cc includes tuner/device.h\n");
  CHECK(lines(wrong_arrows({{"attic/a.cc", ""}, {"tuner/attic/a.cc", ""}})) ==
        "attic/a.cc is in a room without a place in the order\n"
        "tuner/attic/a.cc is in a room without a place in the order\n");
  CHECK(lines(wrong_arrows(
            {{"search/a.cc", "#include \"search/a.h\"\n#include \"base/error.h\"\n#include <search>\n"}})) == "");
  CHECK(lines(wrong_arrows({{"base/a.cc", "// #include \"cli/app.h\"\n"}})) == "");
}

TEST_CASE("inner rooms of the tuner see neither each other nor the loop, plain data aside") {
  CHECK(lines(wrong_arrows({{"tuner/worker/a.cc", "#include \"tuner/compile/compiler.h\"\n"},
                            {"tuner/compile/a.cc", "#include \"tuner/worker/protocol.h\"\n"},
                            {"tuner/worker/b.cc", "#include \"tuner/tune.h\"\n"},
                            {"tuner/compile/b.cc", "#include \"launch/driver.h\"\n"},
                            {"replay/a.cc", "#include \"tuner/worker/nvml.h\"\n"},
                            {"cli/a.cc", "#include \"search/strategies/surrogate.h\"\n"}})) ==
        "tuner/worker/a.cc includes tuner/compile/compiler.h\n"
        "tuner/compile/a.cc includes tuner/worker/protocol.h\n"
        "tuner/worker/b.cc includes tuner/tune.h\n"
        "tuner/compile/b.cc includes launch/driver.h\n"
        "replay/a.cc includes tuner/worker/nvml.h\n"
        "cli/a.cc includes search/strategies/surrogate.h\n");
  CHECK(lines(wrong_arrows({{"tuner/worker/a.h", "#include \"tuner/device.h\"\n"},
                            {"tuner/worker/b.h", "#include \"tuner/compile/build.h\"\n"},
                            {"tuner/tune.cc", "#include \"tuner/compile/compile_pool.h\"\n"}})) == "");
  CHECK(lines(wrong_arrows({{"launch/a.h", "#include \"tuner/device.h\"\n"}})) ==
        "launch/a.h includes tuner/device.h\n");
}

TEST_CASE("a room that is gone is seen") {
  const std::string wrong = lines(phantoms({{"base/a.cc", ""}}));
  CHECK(wrong.find("the order has search/strategies, where there is no source\n") != std::string::npos);
  CHECK(wrong.find("the order has base") == std::string::npos);
  CHECK(wrong.find("there is no tuner/device.h\n") != std::string::npos);
}

TEST_CASE("a vendor's header outside its home, or in two files, is seen") {
  CHECK(lines(homeless_vendors({{"tuner/a.cc", "#include <sqlite3.h>\n"}})) ==
        "tuner/a.cc includes SQLite, whose home is cache\n");
  CHECK(lines(homeless_vendors({{"tuner/worker/a.cc", "#include <cuda.h>\n"}})) ==
        "tuner/worker/a.cc includes the CUDA driver, whose home is launch\n");
  CHECK(lines(homeless_vendors(
            {{"tuner/compile/a.cc", "#include <nvrtc.h>\n"}, {"tuner/compile/b.cc", "#include <nvrtc.h>\n"}})) ==
        "NVRTC is included by tuner/compile/a.cc and tuner/compile/b.cc\n");
  CHECK(lines(homeless_vendors({{"launch/a.h", "#include <cuda.h>\n#include <cudaTypedefs.h>\n"},
                                {"cache/a.cc", "#include <SQLiteCpp/Database.h>\n"},
                                {"cache/b.cc", "#include <sqlite3.h>\n"}})) == "");
}

TEST_CASE("a file of 601 lines is seen and one of 600 is not") {
  CHECK(lines(long_files({{"base/a.cc", std::string(601, '\n')}})) == "base/a.cc has 601 lines\n");
  CHECK(lines(long_files({{"base/a.cc", std::string(600, '\n')}})) == "");
}

TEST_CASE("no function is longer than 60 lines") {
  const auto function = [](int lines, const std::string& indent) {
    std::string text = indent + "void g() {\n";
    for (int line = 2; line < lines; ++line) text += indent + "  f();\n";
    return text + indent + "}\n";
  };
  CHECK(lines(long_functions({{"a.cc", function(60, "")}})) == "");
  CHECK(lines(long_functions({{"a.cc", function(61, "")}})) == "a.cc:1 has 61 lines\n");
  CHECK(lines(long_functions({{"a.cu", "extern \"C\" __global__ " + function(61, "")}})) == "a.cu:1 has 61 lines\n");
  CHECK(lines(long_functions({{"a.cc", "class A {\n" + function(61, "  ") + "};\n"}})) == "a.cc:2 has 61 lines\n");
  CHECK(lines(long_functions(read_sources(is_house))) == "");
}
