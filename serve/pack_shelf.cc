#include "serve/pack_shelf.h"

#include <algorithm>
#include <set>

#include "base/ed25519.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "cache/pack.h"
#include "cache/pack_signature.h"
#include "serve/secrets.h"

namespace moetune {
namespace {

constexpr std::size_t kMostListed = 1000, kMostSignature = 64 << 10;

bool is_pack_name(const std::string& name) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  return name.size() < 200 && name.ends_with(".pack") && !name.starts_with('.') &&
         std::all_of(name.begin(), name.end(), is_plain);
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Beside the signature of the pack that is still there, so that a reader finds a matching pair at every moment.
void sign(const std::filesystem::path& pack, const std::string& bytes, const std::string& key) {
  std::vector<PackSignature> both = {sign_pack(read_secret_key(key), bytes)};
  const std::filesystem::path file = signature_path(pack);
  try {
    if (const auto old = find_regular_file(file, kMostSignatureBytes))
      both.push_back(parse_signatures(*old, file.string()).front());
  } catch (const BadInput&) {  // no signature, and replaced by one
  }
  replace_file(file, signatures_text(both), Durable::yes);
}

}  // namespace

PackShelf::PackShelf(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code unreachable;
  if (!folder_.empty() && !std::filesystem::is_directory(folder_, unreachable))
    throw BadField("packs", folder_.string() + " is no folder");
}

void PackShelf::look() {
  if (folder_.empty()) return;
  std::map<std::string, Entry> found;
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(folder_, gone)) {
    const std::string name = file.path().filename().string();
    if (!is_pack_name(name) || !file.is_regular_file(gone) || found.size() == kMostListed) continue;
    Entry entry{.changed = file.last_write_time(gone), .bytes = file.file_size(gone)};
    const auto known = entries_.find(name);
    if (known != entries_.end() && known->second.changed == entry.changed &&
        known->second.bytes == entry.bytes) {
      found[name] = known->second;
      continue;
    }
    try {
      std::set<std::string> hardware, kernels;
      const Cache pack = Cache::open(file.path(), Cache::Mode::read_only);
      for (const Workload& workload : pack.workloads()) {
        hardware.insert(workload.key.hardware.name);
        kernels.insert(workload.key.kernel);
      }
      entry.sha256 = sha256_hex(read_regular_file(file.path(), kMostPackBytes));
      entry.hardware = joined(hardware);
      entry.kernels = joined(kernels);
      entry.is_sound = pack.manifest() != nullptr;
    } catch (const std::exception&) {  // left out until it changes
    }
    found[name] = entry;
  }
  entries_ = std::move(found);
}

Document PackShelf::list(const std::string& kernel, const std::string& hardware) {
  const std::lock_guard lock(mutex_);
  look();
  Document packs = Document::array();
  for (const auto& [name, entry] : entries_) {
    const bool fits =
        entry.kernels.find(kernel) != std::string::npos && entry.hardware.find(hardware) != std::string::npos;
    if (!entry.is_sound || !fits) continue;
    std::error_code gone;
    packs.push_back({{"name", name},
                     {"hardware", entry.hardware},
                     {"kernels", entry.kernels},
                     {"bytes", entry.bytes},
                     {"sha256", entry.sha256},
                     {"signed", std::filesystem::is_regular_file(folder_ / (name + ".sig"), gone)}});
  }
  return {{"packs", std::move(packs)}};
}

std::optional<PackShelf::File> PackShelf::pack(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(name)) look();
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.is_sound) return std::nullopt;
  auto bytes = find_regular_file(folder_ / found->first, kMostPackBytes);
  if (!bytes) return std::nullopt;
  std::string digest = sha256_hex(*bytes);  // of what is sent, which may be newer than the list
  return File{std::move(*bytes), std::move(digest)};
}

std::optional<std::string> PackShelf::signature(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!entries_.contains(name)) look();
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.is_sound) return std::nullopt;
  return find_regular_file(folder_ / (found->first + ".sig"), kMostSignature);
}

bool PackShelf::publish(const CacheChoice& cache, const Publishing& how) {
  if (folder_.empty()) return false;
  const std::unique_ptr<Cache> source = open_existing_cache(cache);
  if (source == nullptr) return false;
  const std::filesystem::path fresh = folder_ / ".service.pack.new", target = folder_ / "service.pack";
  std::error_code gone;
  std::filesystem::remove(fresh, gone);
  try {
    export_pack(*source, fresh, {.recorded = how.recorded});
  } catch (const BadInput&) {  // no winner that a server may launch
    return false;
  }
  const std::string bytes = read_regular_file(fresh, kMostPackBytes);
  if (find_regular_file(target, kMostPackBytes) == bytes) {
    std::filesystem::remove(fresh, gone);
    return false;
  }
  if (!how.sign_key.empty()) sign(target, bytes, how.sign_key);
  std::filesystem::rename(fresh, target);
  return true;
}

}  // namespace moetune
