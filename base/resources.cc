#include "base/resources.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <shared_mutex>

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

// `name` is the folder's in messages.
std::optional<std::string> read_file(const char* name, const fs::path& folder, std::string_view path) {
  const fs::path file = folder / path;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return std::nullopt;
  if (!leaves_folder(path) && is_inside(folder, file)) return find_regular_file(file, kMostBytes);
  if (!fs::exists(folder, ignored)) return std::nullopt;
  throw BadInput("'" + std::string(path) + "' leads out of " + name + " (" + folder.string() + ")");
}

// Files that were added while the process ran.
struct Added {
  std::shared_mutex mutex;
  std::map<std::string, fs::path> folders;   // "templates/NAME" -> folder
  std::map<std::string, std::string> texts;  // by path
};

Added& added() {
  static Added files;
  return files;
}

// The added folder that holds such a path, and the rest of the path in it.
std::optional<std::pair<fs::path, std::string>> in_added_folder(std::string_view path) {
  const std::shared_lock lock(added().mutex);
  for (const auto& [name, folder] : added().folders) {
    if (path.size() > name.size() + 1 && path.starts_with(name) && path[name.size()] == '/')
      return std::pair(folder, std::string(path.substr(name.size() + 1)));
  }
  return std::nullopt;
}

std::optional<std::string> find_added(std::string_view path) {
  if (const auto file = in_added_folder(path))
    if (std::optional<std::string> text = read_file("its folder", file->first, file->second)) return text;
  const std::shared_lock lock(added().mutex);
  const auto text = added().texts.find(std::string(path));
  return text == added().texts.end() ? std::nullopt : std::optional(text->second);
}

// The regular files of added folders, without those of folders in them.
void list_added(std::vector<std::string>& paths) {
  const std::shared_lock lock(added().mutex);
  for (const auto& [path, text] : added().texts) paths.push_back(path);
  for (const auto& [name, folder] : added().folders) {
    std::error_code failed;
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
      if (std::error_code ignored; it->is_regular_file(ignored))
        paths.push_back(name + "/" + it->path().filename().string());
  }
}

}  // namespace

void add_resource_folder(const std::string& folder_name, const fs::path& folder) {
  const std::unique_lock lock(added().mutex);
  added().folders[folder_name] = folder;
}

void add_resource(const std::string& path, std::string text) {
  const std::unique_lock lock(added().mutex);
  added().texts[path] = std::move(text);
}

bool is_added_file(std::string_view path) { return in_added_folder(path).has_value(); }

bool leaves_folder(std::string_view path) {
  const fs::path named(path);
  return named.is_absolute() || std::find(named.begin(), named.end(), "..") != named.end();
}

std::optional<std::string> find_resource(std::string_view path) {
  if (std::optional<std::string> text = find_added(path)) return text;
  if (const char* dir = data_dir()) return read_file("MOETUNE_DATA_DIR", dir, path);
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
  if (const auto file = in_added_folder(path))
    throw BadInput("there is no file " + (file->first / file->second).string());
  const char* dir = data_dir();
  throw BrokenEnvironment("no file '" + std::string(path) + "' in " +
                          (dir != nullptr ? "MOETUNE_DATA_DIR (" + std::string(dir) + ")" : "this binary") +
                          (dir != nullptr ? "; unset it to use the files built into the binary" : ""));
}

std::vector<std::string> list_resources(std::string_view prefix) {
  std::vector<std::string> paths;
  if (const char* dir = data_dir()) {
    std::error_code ignored;
    for (std::filesystem::recursive_directory_iterator it(dir, ignored), end; it != end; it.increment(ignored)) {
      if (it->is_regular_file(ignored)) paths.push_back(std::filesystem::relative(it->path(), dir, ignored).string());
    }
  } else {
    for (std::uint64_t i = 0; i < moetune_resource_count; ++i) paths.emplace_back(moetune_resource_table[i].path);
  }
  list_added(paths);
  std::erase_if(paths, [&](const std::string& path) { return !path.starts_with(prefix); });
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace moetune
