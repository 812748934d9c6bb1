#include "runtime/layers.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/error.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// A folder's caches and packs, in order of name; a file itself.
std::vector<fs::path> files_of(const fs::path& path) {
  if (std::error_code absent; !fs::is_directory(path, absent)) return {path};
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator it(path, failure), end; !failure && it != end; it.increment(failure)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".db" || extension == ".pack") files.push_back(it->path());
  }
  if (failure) throw BrokenEnvironment("cannot read the folder " + path.string() + ": " + failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Layers::Layers(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    try {
      for (const fs::path& file : files_of(path)) open(file);
    } catch (const BrokenEnvironment& error) {
      warnings_.push_back(error.what());
    }
  }
  if (caches_.empty() && !warnings_.empty()) throw BrokenEnvironment(warnings_.front());
  if (caches_.empty())
    throw BrokenEnvironment("there is no cache and no pack; run moetune search, or name one");
}

void Layers::open(const fs::path& file) {
  try {
    Cache cache = Cache::open(file, Cache::Mode::read_only);
    if (file.extension() == ".pack" && cache.manifest() == nullptr)
      throw BrokenEnvironment(
          file.string() +
          " has no manifest, which every pack has; it was altered: take it from its maker "
          "again (a cache goes by another name)");
    caches_.push_back(std::move(cache));
  } catch (const BrokenEnvironment& error) {
    warnings_.push_back(error.what());
  } catch (const BadInput& error) {
    warnings_.push_back(error.what());
  }
}

std::vector<StoredWinner> Layers::winners(const std::string& kernel, const std::string& family,
                                          bool allow_recorded) {
  std::vector<StoredWinner> all;
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
    try {
      for (FamilyWinner& winner : caches_[layer].family_winners(kernel, family)) {
        const WorkloadKey& key = winner.workload.key;
        const bool measured = key.hardware.origin == "gpu" && !is_recording(key);
        if (!winner.contended && (measured || allow_recorded)) all.push_back({layer, std::move(winner)});
      }
    } catch (const BrokenEnvironment& error) {
      warnings_.push_back(error.what());  // damaged since it was opened; other layers still serve
    }
  }
  return all;
}

Blob Layers::cubin(std::size_t layer, std::int64_t id) const { return caches_.at(layer).cubin(id); }

}  // namespace moetune
