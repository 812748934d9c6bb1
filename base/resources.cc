#include "base/resources.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace moetune {

namespace {
struct EmbeddedFile {
  const char* path;
  const char* data;
  std::uint64_t size;
};
}  // namespace

extern "C" {
extern const EmbeddedFile moetune_resource_table[];
extern const std::uint64_t moetune_resource_count;
}

namespace {

const char* data_dir() {
  const char* dir = std::getenv("MOETUNE_DATA_DIR");
  return dir != nullptr && *dir != '\0' ? dir : nullptr;
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path)) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

std::optional<std::string> find_resource(std::string_view path) {
  if (const char* dir = data_dir()) return read_file(std::filesystem::path(dir) / path);
  for (std::uint64_t i = 0; i < moetune_resource_count; ++i) {
    const EmbeddedFile& file = moetune_resource_table[i];
    if (path == file.path) return std::string(file.data, file.size);
  }
  return std::nullopt;
}

std::string read_resource(std::string_view path) {
  if (std::optional<std::string> text = find_resource(path)) return *std::move(text);
  const char* dir = data_dir();
  throw BrokenEnvironment("no file '" + std::string(path) + "' in " +
                          (dir != nullptr ? "MOETUNE_DATA_DIR (" + std::string(dir) + ")" : "this binary") +
                          (dir != nullptr ? "; unset it to use the files built into the binary" : ""));
}

std::vector<std::string> list_resources(std::string_view prefix) {
  std::vector<std::string> paths;
  if (const char* dir = data_dir()) {
    std::error_code ignored;
    for (std::filesystem::recursive_directory_iterator it(dir, ignored), end; it != end;
         it.increment(ignored)) {
      if (it->is_regular_file(ignored))
        paths.push_back(std::filesystem::relative(it->path(), dir, ignored).string());
    }
  } else {
    for (std::uint64_t i = 0; i < moetune_resource_count; ++i)
      paths.emplace_back(moetune_resource_table[i].path);
  }
  std::erase_if(paths, [&](const std::string& path) { return !path.starts_with(prefix); });
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace moetune
