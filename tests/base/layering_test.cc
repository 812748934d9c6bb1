// The architecture, held by reading the sources: which room may include which, where each vendor's headers
// live, and how long a file may grow.
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

namespace fs = std::filesystem;

namespace {

struct Source {
  std::string path;  // from the repository root
  std::string text;
};

// A room and what it may include besides itself. Order is from the ground up.
const std::map<std::string, std::set<std::string>> kArrows = {
    {"base", {}},
    {"search", {"base"}},
    {"cache", {"base"}},
    {"kernels", {"search", "base"}},
    {"tuner", {"kernels", "search", "cache", "base"}},
    {"runtime", {"kernels", "search", "cache", "base"}},
    {"replay", {"tuner", "kernels", "search", "cache", "base"}},
    {"jobs", {"replay", "tuner", "launch", "kernels", "search", "cache", "base"}},
    {"cli", {"jobs", "replay", "tuner", "runtime", "kernels", "search", "cache", "base"}},
    {"bench", {"replay", "tuner", "runtime", "kernels", "search", "cache", "base"}},
};

struct Vendor {
  std::string name;
  std::regex header;
  std::set<std::string> rooms;
  bool one_file_a_room;
};

const std::vector<Vendor> kVendors = {
    {"the CUDA driver", std::regex("cuda[A-Za-z_]*\\.h|cuda/.*"), {"tuner", "runtime"}, true},
    {"NVRTC", std::regex("nvrtc\\.h"), {"tuner"}, true},
    {"NVML", std::regex("nvml\\.h"), {"tuner"}, true},
    {"SQLite", std::regex("sqlite3.*\\.h|SQLiteCpp/.*"), {"cache"}, false},
    {"Boost", std::regex("boost/.*"), {"cli"}, false},
};

constexpr int kLongestFile = 400;

std::string room_of(const std::string& path) { return path.substr(0, path.find('/')); }

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
    const auto allowed = kArrows.find(room);
    if (allowed == kArrows.end()) {
      wrong.push_back(source.path + " is in a room without a place in the order");
      continue;
    }
    for (const std::string& header : includes_of(source)) {
      const std::string target = room_of(header);
      if (kArrows.contains(target) && target != header && target != room &&
          !allowed->second.contains(target)) {
        wrong.push_back(source.path + " includes " + header);
      }
    }
  }
  return wrong;
}

std::vector<std::string> homeless_vendors(const std::vector<Source>& sources) {
  std::vector<std::string> wrong;
  for (const Vendor& vendor : kVendors) {
    std::map<std::string, std::set<std::string>> files_by_room;
    for (const Source& source : sources) {
      const std::vector<std::string> headers = includes_of(source);
      const bool uses = std::any_of(headers.begin(), headers.end(), [&](const std::string& header) {
        return std::regex_match(header, vendor.header);
      });
      if (uses) files_by_room[room_of(source.path)].insert(source.path);
    }
    for (const auto& [room, files] : files_by_room) {
      if (!vendor.rooms.contains(room)) wrong.push_back(*files.begin() + " includes " + vendor.name);
      if (vendor.one_file_a_room && files.size() > 1) {
        wrong.push_back(vendor.name + " is included by " + *files.begin() + " and " + *files.rbegin());
      }
    }
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

bool is_source(const fs::path& path) {
  static const std::set<std::string> kinds = {".h", ".cc", ".cu", ".cuh"};
  return kinds.contains(path.extension().string());
}

// The C++ and CUDA sources below the folders of the repository's root for which `wanted` holds.
template <typename Wanted>
std::vector<Source> read_sources(Wanted&& wanted) {
  const fs::path root = MOETUNE_SOURCE_DIR;
  std::vector<Source> sources;
  for (const fs::directory_entry& folder : fs::directory_iterator(root)) {
    if (!folder.is_directory() || !wanted(folder.path().filename().string())) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      sources.push_back({fs::relative(entry.path(), root).generic_string(),
                         std::string(std::istreambuf_iterator<char>(in), {})});
    }
  }
  return sources;
}

bool is_house(const std::string& folder) {
  return !folder.starts_with('.') && folder != "build" && folder != "shared";
}

bool is_room(const std::string& folder) {
  // include/ holds the C ABI, which stands outside the order; templates are device code.
  return is_house(folder) && folder != "tests" && folder != "templates" && folder != "include";
}

std::vector<Source> rooms() { return read_sources(is_room); }

using Complaints = std::vector<std::string>;

}  // namespace

TEST_CASE("the rooms are found") {
  const std::vector<Source> sources = rooms();
  for (const char* known : {"base/digest.cc", "kernels/kernel.h", "tuner/device.h"}) {
    CHECK(std::any_of(sources.begin(), sources.end(),
                      [&](const Source& source) { return source.path == known; }));
  }
}

TEST_CASE("includes point down") { CHECK(wrong_arrows(rooms()) == Complaints{}); }

TEST_CASE("every vendor's headers have one home") { CHECK(homeless_vendors(rooms()) == Complaints{}); }

TEST_CASE("no file is longer than 400 lines") { CHECK(long_files(read_sources(is_house)) == Complaints{}); }

TEST_CASE("an arrow that points up is seen, a room's own header and an equal word are not one") {
  CHECK(wrong_arrows({{"search/space.cc", "  #  include \"cache/cache.h\"\n"}}) ==
        Complaints{"search/space.cc includes cache/cache.h"});
  CHECK(wrong_arrows({{"base/a.cc", "#include <tuner/device.h>\n"}}) ==
        Complaints{"base/a.cc includes tuner/device.h"});
  CHECK(wrong_arrows({{"attic/a.cc", ""}}) ==
        Complaints{"attic/a.cc is in a room without a place in the order"});
  CHECK(wrong_arrows(
            {{"search/a.cc", "#include \"search/a.h\"\n#include \"base/error.h\"\n#include <search>\n"}}) ==
        Complaints{});
  CHECK(wrong_arrows({{"base/a.cc", "// #include \"cli/app.h\"\n"}}) == Complaints{});
}

TEST_CASE("a vendor's header outside its home, or in two files, is seen") {
  CHECK(homeless_vendors({{"tuner/a.cc", "#include <sqlite3.h>\n"}}) ==
        Complaints{"tuner/a.cc includes SQLite"});
  CHECK(homeless_vendors({{"kernels/a.cc", "#include <cuda.h>\n"}}) ==
        Complaints{"kernels/a.cc includes the CUDA driver"});
  CHECK(homeless_vendors({{"tuner/a.cc", "#include <nvrtc.h>\n"}, {"tuner/b.cc", "#include <nvrtc.h>\n"}}) ==
        Complaints{"NVRTC is included by tuner/a.cc and tuner/b.cc"});
  CHECK(homeless_vendors({{"tuner/a.h", "#include <cuda.h>\n#include <cudaTypedefs.h>\n"},
                          {"cache/a.cc", "#include <SQLiteCpp/Database.h>\n"},
                          {"cache/b.cc", "#include <sqlite3.h>\n"}}) == Complaints{});
}

TEST_CASE("a file of 401 lines is seen and one of 400 is not") {
  CHECK(long_files({{"base/a.cc", std::string(401, '\n')}}) == Complaints{"base/a.cc has 401 lines"});
  CHECK(long_files({{"base/a.cc", std::string(400, '\n')}}) == Complaints{});
}
