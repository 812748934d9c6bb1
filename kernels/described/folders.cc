#include "kernels/described/folders.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/regular_file.h"
#include "base/resources.h"
#include "kernels/described/described_kernel.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "kernel.json";
constexpr std::size_t kMostKernels = 256;  // of a folder

std::vector<std::string> split_folders(std::string_view text) {
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) folders.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

class Loader {
 public:
  explicit Loader(const std::vector<std::string>& taken) {
    for (const std::string& name : taken) places_.emplace(name, "a built-in kernel");
  }

  void load_all(const fs::path& folder) {
    std::error_code failed;
    if (!fs::is_directory(folder, failed)) return refuse(folder, "there is no such folder");
    if (fs::exists(folder / kFile, failed)) return load(folder);
    std::vector<fs::path> found;
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
      if (std::error_code ignored; fs::exists(it->path() / kFile, ignored)) found.push_back(it->path());
    if (failed) return refuse(folder, failed.message());
    if (found.size() > kMostKernels) return refuse(folder, "it holds more than 256 kernels");
    std::sort(found.begin(), found.end());
    for (const fs::path& one : found) load(one);
  }

  DescribedKernels finish() {
    std::ranges::sort(loaded_.kernels, {}, [](const auto& kernel) { return kernel->name(); });
    return std::move(loaded_);
  }

 private:
  void refuse(const fs::path& folder, const std::string& reason) {
    loaded_.broken.push_back({folder.filename().string(), folder.string(), reason});
  }

  void load(const fs::path& folder) {
    const std::string name = folder.filename().string(), file = (folder / kFile).string();
    const auto other = places_.find(name);
    if (other != places_.end() && other->second == folder) return;  // named twice
    if (other != places_.end())
      return refuse(folder, "'" + name + "' is " + (other->second.starts_with("a ") ? "" : "also ") + other->second +
                                ", which a folder cannot replace: rename " + folder.string());
    try {
      std::string text = read_regular_file(file, kMaxDescription);
      loaded_.kernels.push_back(described_kernel(read_description(text, file, name)));
      add_resource_folder("templates/" + name, folder);
      add_resource("spaces/" + name + ".json", std::move(text));
      places_.emplace(name, folder.string());
    } catch (const BadInput& error) {
      refuse(folder, error.what());
    }
  }

  DescribedKernels loaded_;
  std::map<std::string, std::string> places_;  // of the names that are taken
};

}  // namespace

std::unique_ptr<const Kernel> built_in_description(const std::string& name) {
  const std::string file = "templates/" + name + "/" + kFile;
  std::optional<std::string> text = find_resource(file);
  if (!text) text = find_embedded(file);  // MOETUNE_DATA_DIR names a folder of an earlier version
  if (!text) throw BrokenEnvironment("no file '" + file + "' in this binary");
  auto kernel = described_kernel(read_description(*text, file, name));
  add_resource("spaces/" + name + ".json", *std::move(text));
  return kernel;
}

std::string description_core(const std::string& text) {
  if (text.size() > kMaxDescription) throw BadInput("kernel.json is larger than 1 MiB");
  nlohmann::json json = parse_json(text, "kernel.json");
  if (!json.is_object()) throw BadInput("kernel.json is no object");
  for (const char* key : {"doc", "presets", "parameters", "constraints", "bases", "defaults", "cost"}) json.erase(key);
  return json.dump();
}

std::string own_description(const std::string& name) {
  const std::string file = "templates/" + name + "/" + kFile;
  const std::optional<std::string> text = find_embedded(file) ? std::nullopt : find_resource(file);
  return text.value_or("");
}

std::unique_ptr<const Kernel> packed_description(const std::string& name, const std::string& text,
                                                 const std::string& file) {
  auto kernel = described_kernel(read_description(text, file, name));
  add_resource("templates/" + name + "/" + kFile, text);
  add_resource("spaces/" + name + ".json", text);
  return kernel;
}

DescribedKernels load_described_kernels(const char* folders, const std::vector<std::string>& taken) {
  Loader loader(taken);
  if (folders != nullptr) {
    for (const std::string& folder : split_folders(folders)) {
      // "kernels/" and "." have no file name.
      const fs::path path = fs::path(folder).lexically_normal();
      std::error_code ignored;
      const fs::path whole = fs::absolute(path, ignored).lexically_normal();
      loader.load_all(whole.has_filename() ? whole : whole.parent_path());
    }
  }
  return loader.finish();
}

}  // namespace moetune
