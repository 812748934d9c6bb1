#include "serve/api/pack_shelf.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/ed25519.h"
#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "cache/pack.h"
#include "kernels/described/folders.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListed = 1000, kMostSignatures = 16, kPieceBytes = 256 << 10;

// A file that is open for as long as somebody reads it, whatever is renamed over it meanwhile. Links are followed:
// each file of a volume that Kubernetes fills is one.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& file) : file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile&) = delete;
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  std::optional<struct stat> facts() const {
    struct stat facts = {};
    if (file_ < 0 || ::fstat(file_, &facts) != 0) return std::nullopt;
    return facts;
  }
  std::string piece() const {
    std::string bytes(kPieceBytes, '\0');
    const ssize_t got = ::read(file_, bytes.data(), bytes.size());
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

 private:
  int file_;
};

std::vector<PackSignature> signatures_of(const fs::path& pack) {
  const fs::path file = signature_path(pack);
  try {
    if (const auto text = find_regular_file(file, kMostSignatureBytes)) return parse_signatures(*text, file.string());
  } catch (const BadInput&) {  // no signature, and replaced by one
  }
  return {};
}

void write_signatures(const fs::path& pack, std::vector<PackSignature> signatures) {
  if (signatures.size() > kMostSignatures) signatures.resize(kMostSignatures);
  replace_file(signature_path(pack), signatures_text(signatures), Durable::yes);
}

// Another text for another file, or if it was written to.
std::string facts_of(const fs::path& file) {
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) return "none;";
  return format("%llu %lld %lld;", static_cast<unsigned long long>(facts.st_ino), static_cast<long long>(facts.st_size),
                static_cast<long long>(changed_ns(facts)));
}

bool equal(const PackSignature& a, const PackSignature& b) {
  return a.key_id == b.key_id && a.signature == b.signature;
}

}  // namespace

PackShelf::PackShelf(fs::path folder, std::uint64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {
  std::error_code unreachable;
  if (!folder_.empty() && !fs::is_directory(folder_, unreachable))
    throw BadField("packs", folder_.string() + " is no folder");
}

PackShelf::Entry PackShelf::read(const fs::path& file, Entry entry) const {
  try {
    const Cache pack = Cache::open(file, Cache::Mode::read_only);
    for (const Workload& workload : pack.workloads.all()) {
      entry.hardware.insert(workload.key.hardware.name);
      entry.kernels.insert(workload.key.kernel);
    }
    entry.sha256 = sha256_hex(read_regular_file(file, most_bytes_));
    entry.is_sound = pack.manifest() != nullptr;
  } catch (const std::exception&) {  // left out until it changes
  }
  return entry;
}

void PackShelf::look() {
  if (folder_.empty()) return;
  const std::lock_guard alone(looking_);
  Entries known, found;
  {
    const std::lock_guard lock(mutex_);
    known = entries_;
  }
  std::error_code gone;
  for (const auto& file : fs::directory_iterator(folder_, gone)) {
    const std::string name = file.path().filename().string();
    if (!is_pack_name(name) || !file.is_regular_file(gone) || found.size() == kMostListed) continue;
    struct stat facts = {};
    if (::stat(file.path().c_str(), &facts) != 0) continue;
    const Entry entry{
        .changed_ns = changed_ns(facts), .bytes = static_cast<std::uint64_t>(facts.st_size), .inode = facts.st_ino};
    const auto before = known.find(name);
    const bool is_known = before != known.end() && before->second.changed_ns == entry.changed_ns &&
                          before->second.bytes == entry.bytes && before->second.inode == entry.inode;
    found[name] = is_known ? before->second : read(file.path(), entry);
  }
  const std::lock_guard lock(mutex_);
  entries_ = std::move(found);
}

Document PackShelf::list() {
  look();
  const std::lock_guard lock(mutex_);
  Document packs = Document::array();
  for (const auto& [name, entry] : entries_) {
    if (!entry.is_sound) continue;
    std::error_code gone;
    packs.push_back({{"name", name},
                     {"hardware", joined(entry.hardware)},
                     {"kernels", joined(entry.kernels)},
                     {"bytes", entry.bytes},
                     {"sha256", entry.sha256},
                     {"signed", fs::is_regular_file(signature_path(folder_ / name), gone)}});
  }
  return {{"packs", std::move(packs)}};
}

std::optional<PackShelf::Entry> PackShelf::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.is_sound) return std::nullopt;
  return found->second;
}

std::optional<PackShelf::File> PackShelf::pack(const std::string& name) {
  for (int tries = 0; tries < 2; ++tries) {
    const std::optional<Entry> entry = find(name);
    // A name of the list, so that it is no path.
    const auto file = std::make_shared<const OpenFile>(entry ? folder_ / name : fs::path());
    const std::optional<struct stat> facts = entry ? file->facts() : std::nullopt;
    if (facts && S_ISREG(facts->st_mode) && facts->st_ino == entry->inode && changed_ns(*facts) == entry->changed_ns &&
        static_cast<std::uint64_t>(facts->st_size) == entry->bytes)
      return File{entry->bytes, entry->sha256, [file] { return file->piece(); }};
    if (tries == 0) look();  // it is new, or has been replaced
  }
  return std::nullopt;
}

std::optional<std::string> PackShelf::signature(const std::string& name) {
  if (!find(name)) look();
  if (!find(name)) return std::nullopt;
  return find_regular_file(signature_path(folder_ / name), kMostSignatureBytes);
}

// Both signatures are there before the pack is replaced, so that a reader finds a matching pair at every moment.
bool PackShelf::publish(const CacheChoice& cache, const std::string& sign_key) {
  if (folder_.empty()) return false;
  const std::lock_guard alone(publishing_);
  const std::unique_ptr<Cache> source = open_existing_cache(cache);
  if (source == nullptr) return false;
  const fs::path target = folder_ / "service.pack";
  const auto state = [&] {
    return pack_state(*source) + facts_of(target) + facts_of(signature_path(target)) + facts_of(sign_key);
  };
  if (published_ == state()) return false;  // a job that changed no winner
  remove_left_overs(target);
  std::error_code gone;
  std::string bytes;
  try {
    bytes = make_pack(*source, {.description = own_description}).bytes;
  } catch (const NoWinners& error) {
    if (!fs::exists(target, gone)) return false;  // nothing is tuned yet
    throw BadInput(std::string(error.what()) + "; service.pack stays as it is, with the winners of before: " +
                   "remove it if nobody is to get them");
  }
  if (bytes.size() > most_bytes_)
    throw BadInput(
        format("the cache's winners make a pack of %.1f MiB, and %.1f MiB are served at most; service.pack "
               "stays as it is (moetune cache gc, cache rm and cache export --kernel make smaller ones)",
               static_cast<double>(bytes.size()) / 1048576, static_cast<double>(most_bytes_) / 1048576));
  std::vector<PackSignature> old = signatures_of(target), own;
  if (!sign_key.empty()) own.push_back(sign_pack(read_secret_key(sign_key), bytes));
  std::vector<PackSignature> both = own;
  both.insert(both.end(), old.begin(), old.end());
  const bool is_there =
      fs::file_size(target, gone) == bytes.size() && !gone && find_regular_file(target, most_bytes_) == bytes;
  if (is_there) {
    const bool is_signed =
        own.empty() || std::ranges::any_of(old, [&](const PackSignature& one) { return equal(one, own.front()); });
    if (!is_signed) write_signatures(target, both);
    published_ = state();
    return !is_signed;
  }
  if (!own.empty()) write_signatures(target, both);
  replace_file(target, bytes);
  if (!own.empty()) {
    write_signatures(target, own);
  } else {
    fs::remove(signature_path(target), gone);  // it was of the pack of before
  }
  published_ = state();
  return true;
}

}  // namespace moetune
