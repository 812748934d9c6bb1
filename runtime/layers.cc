#include "runtime/layers.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

bool is_pack(const fs::path& file) { return file.extension() == ".pack"; }

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

template <typename One>
void append(std::vector<One>& all, std::vector<One> more) {
  if (all.empty()) {
    all = std::move(more);
  } else {
    std::ranges::move(more, std::back_inserter(all));
  }
}

}  // namespace

Layers::Layers(const std::vector<fs::path>& paths, const TrustedKeys& trusted, std::chrono::milliseconds settled_age)
    : trusted_(trusted), settled_age_(settled_age) {
  for (const fs::path& path : paths) {
    try {
      for (const fs::path& file : files_of(path)) {
        if (trusted.empty() || is_pack(file) || file == path) {
          open(file);
        } else {
          warnings_.push_back(file.string() + " is left out: trusted keys are given, and a cache is not signed; " +
                              "name the file itself to use it");
        }
      }
    } catch (const BrokenEnvironment& error) {
      warnings_.push_back(error.what());
    }
  }
  if (caches_.empty() && !warnings_.empty()) throw BrokenEnvironment(warnings_.front());
  if (caches_.empty()) throw NothingStored("there is no cache and no pack; run moetune search, or name one");
}

void Layers::open(const fs::path& file) {
  try {
    caches_.push_back(checked(file, true));
    add_kernels(caches_.back());
  } catch (const BrokenEnvironment& error) {
    warnings_.push_back(error.what());
  } catch (const BadInput& error) {
    warnings_.push_back(error.what());
  }
}

void Layers::add_kernels(const Cache& pack) {
  if (pack.manifest() == nullptr) return;
  for (const auto& [kernel, text] : pack.manifest()->kernels) {
    const std::string path = pack.path().string(), reason = add_packed_kernel(kernel, text, path);
    if (reason.empty()) continue;
    refused_.emplace(path, kernel);
    warnings_.push_back(path + ": the results of " + kernel + " are not used: " + reason);
  }
}

Cache Layers::checked(const fs::path& file, bool without_locks) const {
  std::error_code absent;
  if (is_pack(file) && fs::file_size(file, absent) == 0 && !absent)
    throw BrokenEnvironment(file.string() + " is empty; it was not copied whole: take the pack from its maker again");
  const bool signed_pack = is_pack(file) && !trusted_.empty();
  std::optional<Cache> settled = without_locks && !signed_pack ? Cache::open_settled(file, settled_age_) : std::nullopt;
  Cache cache = settled       ? *std::move(settled)
                : signed_pack ? Cache::open_content(file, trusted_.read(file), Cache::Mode::read_only)
                              : Cache::open(file, Cache::Mode::read_only);
  if (!signed_pack && !trusted_.empty() && cache.manifest() != nullptr)
    throw BrokenEnvironment(file.string() + " is a pack by another name, whose signature is not looked for; " +
                            "name it *.pack");
  if (is_pack(file) && cache.manifest() == nullptr)
    throw BrokenEnvironment(file.string() +
                            " has no manifest, which every pack has; it was altered: take it from its maker "
                            "again (a cache goes by another name)");
  return cache;
}

template <typename Read, typename IsSound>
auto Layers::read_from(std::size_t layer, const Read& read, const IsSound& is_sound) {
  Cache& cache = caches_.at(layer);
  try {
    auto found = read(cache);
    if (is_sound(cache)) return found;
  } catch (const BrokenEnvironment&) {
    if (cache.is_unchanged()) throw;
  }
  try {
    cache = checked(fs::path(cache.path()), false);
  } catch (const BadInput& gone) {
    throw BrokenEnvironment(gone.what());
  }
  return read(cache);
}

StoredFamily Layers::read(std::size_t layer, const std::string& kernel, const std::string& family,
                          bool allow_recorded) {
  StoredFamily found;
  if (refused_.contains({path(layer), kernel})) return found;
  const auto rows = [&](const Cache& cache) {
    return std::pair(cache.winners.of_family(kernel, family), cache.ranges.of_family(kernel, family));
  };
  auto [winners, ranges] = read_from(layer, rows, [](const Cache& cache) { return cache.is_unchanged(); });
  if (winners.damaged > 0)
    warnings_.push_back(path(layer) + ": " + std::to_string(winners.damaged) + " of " +
                        std::to_string(winners.damaged + winners.sound.size()) + " winners of " + kernel + " " +
                        family +
                        " are not used: they are damaged (they do not match their digests); `moetune cache check` "
                        "names them");
  found.winners.reserve(winners.sound.size());
  for (FamilyWinner& winner : winners.sound) {
    const WorkloadKey& key = winner.workload.key;
    const bool measured = key.hardware.origin == "gpu" && !is_recording(key);
    if (!winner.contended && (measured || allow_recorded)) found.winners.push_back({layer, std::move(winner)});
  }
  const auto timing_of = [](const StoredWinner& one) { return one.record.workload.key.timing; };
  if (!std::ranges::is_sorted(found.winners, {}, timing_of))  // mostly they have one timing
    std::ranges::stable_sort(found.winners, {}, timing_of);
  for (FamilyRange& range : ranges) {
    if (range.key.hardware.origin == "gpu" || allow_recorded) found.ranges.push_back({layer, std::move(range)});
  }
  std::ranges::stable_sort(found.ranges, {}, [](const StoredRange& one) { return one.record.key.timing; });
  return found;
}

StoredFamily Layers::family(const std::string& kernel, const std::string& family, bool allow_recorded) {
  StoredFamily all;
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
    try {
      StoredFamily one = read(layer, kernel, family, allow_recorded);
      append(all.winners, std::move(one.winners));
      append(all.ranges, std::move(one.ranges));
    } catch (const BrokenEnvironment& error) {
      warnings_.push_back(error.what());  // damaged since it was opened; other layers still serve
    } catch (const BadInput& error) {
      warnings_.push_back(error.what());  // gone
    }
  }
  return all;
}

// By its content, so that it is right even if the file has changed since the family was read.
Blob Layers::cubin(std::size_t layer, const std::string& digest) {
  return read_from(
      layer, [&](const Cache& cache) { return cache.winners.cubin(digest); }, [](const Cache&) { return true; });
}

}  // namespace moetune
