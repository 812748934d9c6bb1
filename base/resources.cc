#include "base/resources.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "base/environment.h"
#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {

namespace fs = std::filesystem;

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

const char* data_dir() { return environment_variable("MOETUNE_DATA_DIR"); }

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

// Neither a name nor a link leads out of the folder: a template's #include would bring any file of the user's
// into what is compiled, logged and stored.
bool is_inside(const fs::path& folder, const fs::path& file) {
  std::error_code failed;
  const fs::path inner = fs::weakly_canonical(file, failed).lexically_relative(fs::canonical(folder, failed));
  return !failed && !inner.empty() && *inner.begin() != "..";
}

std::optional<std::string> read_file(const fs::path& folder, std::string_view path) {
  const fs::path file = folder / path;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return std::nullopt;
  if (!leaves_folder(path) && is_inside(folder, file)) return find_regular_file(file, kMostBytes);
  if (!fs::exists(folder, ignored)) return std::nullopt;
  throw BadInput("'" + std::string(path) + "' leads out of MOETUNE_DATA_DIR (" + folder.string() + ")");
}

}  // namespace

bool leaves_folder(std::string_view path) {
  const fs::path named(path);
  return named.is_absolute() || std::find(named.begin(), named.end(), "..") != named.end();
}

std::optional<std::string> find_resource(std::string_view path) {
  if (const char* dir = data_dir()) return read_file(dir, path);
  return find_embedded(path);
}

std::optional<std::string> find_embedded(std::string_view path) {
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
