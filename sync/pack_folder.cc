#include "sync/pack_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "cache/check.h"
#include "jobs/session/record_rules.h"
#include "sync/miss_files.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostPacks = 1000;
constexpr std::uint64_t kMostTotalBytes = std::uint64_t{16} << 30;
constexpr std::size_t kMostListBytes = std::size_t{1} << 20, kMostStateBytes = std::size_t{4} << 20;
constexpr std::time_t kLeftOverAge = 3600;
constexpr const char* kStateFile = ".moetune-sync.json";

bool is_sha256(const std::string& text) {
  std::array<std::uint8_t, 32> bytes;
  return read_hex(text, bytes.data(), bytes.size());
}

// "" if the bytes are a pack that a server may open.
std::string why_unsound(const fs::path& file, const std::string& bytes) {
  try {
    if (Cache::open_content(file, bytes, Cache::Mode::read_only).manifest() == nullptr)
      return "it has no manifest, which every pack has";
    const std::vector<CacheProblem> problems =
        check_cache(Cache::open_content(file, bytes, Cache::Mode::inspect), record_rules());
    return problems.empty() ? "" : problems.front().where + ": " + problems.front().what;
  } catch (const BrokenEnvironment& error) {
    return error.what();
  } catch (const BadInput& error) {
    return error.what();
  }
}

std::vector<PackSignature> signatures_of(const fs::path& file) {
  try {
    const auto text = find_regular_file(file, kMostSignatureBytes);
    return text ? parse_signatures(*text, file.string()) : std::vector<PackSignature>{};
  } catch (const BadInput&) {
    return {};
  }
}

// Whether it was to become a pack, a signature, the state or posted misses.
bool is_left_over(const std::string& name) {
  const std::optional<std::string> whole = replaced_by(name);
  if (!whole) return false;
  return is_pack_name(*whole) || (whole->ends_with(".sig") && is_pack_name(whole->substr(0, whole->size() - 4))) ||
         *whole == kStateFile || whole->ends_with(kPostedEnding);
}

}  // namespace

PackList parse_pack_list(std::string_view text, const std::string& what) {
  const nlohmann::json document = parse_json(text, what, RepeatedKeys::refused);
  PackList list;
  std::set<std::string> names;
  std::uint64_t total = 0;
  try {
    const nlohmann::json& packs = document.at("packs");
    if (!packs.is_array() || packs.size() > kMostPacks)
      throw BadInput(what + " holds no list of at most " + std::to_string(kMostPacks) + " packs");
    for (const nlohmann::json& one : packs) {
      if (one.at("bytes").is_number() && !one.at("bytes").is_number_unsigned())
        throw BadInput(what + ": a pack's bytes are no whole number");
      ListedPack pack{one.at("name").get<std::string>(), one.at("sha256").get<std::string>(),
                      one.at("bytes").get<std::uint64_t>(), one.value("signed", false)};
      if (!is_pack_name(pack.name) || !is_sha256(pack.sha256)) {
        list.warnings.push_back(what + " lists a pack of a name or a digest that is none; it is left out");
      } else if (pack.bytes == 0 || pack.bytes > kMostPackBytes) {
        list.warnings.push_back(what + ": " + pack.name + " has " + std::to_string(pack.bytes) + " bytes; from 1 to " +
                                std::to_string(kMostPackBytes) + " are taken");
      } else if (!names.insert(pack.name).second) {
        list.warnings.push_back(what + " lists " + pack.name + " twice; the first counts");
      } else {
        total += pack.bytes;
        list.packs.push_back(std::move(pack));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(what + " is no list of packs: " + json_error_text(error));
  }
  if (total > kMostTotalBytes)
    throw BadInput(what + " lists packs of more than " + std::to_string(kMostTotalBytes >> 30) + " GiB in all");
  return list;
}

PackFolder::PackFolder(fs::path folder, TrustedKeys trusted)
    : folder_(std::move(folder)), trusted_(std::move(trusted)) {}

// A state that cannot be read is none: packs that are as listed need it not, and others are then left alone.
void PackFolder::read_state() {
  list_etag_.clear();
  list_.clear();
  installed_.clear();
  try {
    const auto text = find_regular_file(folder_ / kStateFile, kMostStateBytes);
    if (!text) return;
    const nlohmann::json state = parse_json(*text, kStateFile);
    if (state.at("moetune_sync") != 1) return;
    installed_ = state.at("installed").get<std::map<std::string, std::vector<std::string>>>();
    list_ = state.at("list").get<std::string>();
    list_etag_ = state.at("etag").get<std::string>();
  } catch (const BadInput&) {
  } catch (const nlohmann::json::exception&) {
    list_etag_.clear();
  }
}

void PackFolder::write_state() const {
  const nlohmann::json state = {{"moetune_sync", 1}, {"installed", installed_}, {"etag", list_etag_}, {"list", list_}};
  replace_file(folder_ / kStateFile, state.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
               Durable::yes);
}

// Removes files of a process that was killed while it wrote.
void PackFolder::remove_left_overs() const {
  std::error_code failure;
  for (fs::directory_iterator it(folder_, failure), end; !failure && it != end; it.increment(failure)) {
    if (!is_left_over(it->path().filename().string())) continue;
    struct stat facts = {};
    if (::lstat(it->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
        std::time(nullptr) - facts.st_mtime > kLeftOverAge)
      ::unlink(it->path().c_str());
  }
}

// "" if there is no such file.
std::string PackFolder::digest_of(const fs::path& file) {
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) return "";
  const Known now{facts.st_size, changed_ns(facts), facts.st_ino, ""};
  Known& known = known_[file.filename().string()];
  const bool same = known.size == now.size && known.changed_ns == now.changed_ns && known.inode == now.inode;
  if (!same || known.sha256.empty()) {
    known = now;
    known.sha256 = sha256_hex(read_regular_file(file, kMostPackBytes));
  }
  return known.sha256;
}

InstalledPacks PackFolder::update(const ServiceClient& service) {
  read_state();
  remove_left_overs();
  const HttpResponse answer = service.get("/v1/packs", kMostListBytes, list_etag_);
  if (answer.status == 404) throw ServiceFailure("the service has no list of packs (GET /v1/packs is 404)");
  const std::string text = answer.status == 304 ? list_ : answer.body;
  PackList list;
  try {
    list = parse_pack_list(text, "the service's list");
  } catch (const BadInput& error) {
    if (answer.status == 304) forget_list();
    throw ServiceFailure(error.what());
  }
  InstalledPacks result{.warnings = std::move(list.warnings)};
  for (const ListedPack& pack : list.packs) {
    try {
      install(service, pack, result);
    } catch (const BadInput& error) {
      result.warnings.push_back(pack.name + " is not installed: " + error.what());
    }
  }
  const bool changed = answer.status == 200 && (list_ != text || list_etag_ != answer.header("etag"));
  if (changed) {
    list_ = text;
    list_etag_ = answer.header("etag").substr(0, 200);
    write_state();
  }
  return result;
}

// The next round asks for it anew, and not only whether it has changed.
void PackFolder::forget_list() {
  list_.clear();
  list_etag_.clear();
  write_state();
}

// Whether a pack in the folder lacks a signature that it should have.
bool PackFolder::needs_signature(const ListedPack& pack) const {
  const fs::path file = folder_ / pack.name;
  const std::vector<PackSignature> signatures = signatures_of(signature_path(file));
  if (trusted_.empty()) return pack.has_signature && signatures.empty();
  return signatures.empty() || !trusted_.why_refused(read_regular_file(file, kMostPackBytes), signatures).empty();
}

// Throws BadInput, with the reason, for a pack that is not to be installed.
void PackFolder::install(const ServiceClient& service, const ListedPack& pack, InstalledPacks& result) {
  const fs::path file = folder_ / pack.name;
  const std::string present = digest_of(file);
  const auto known = installed_.find(pack.name);
  const std::vector<std::string> own = known != installed_.end() ? known->second : std::vector<std::string>();
  if (!present.empty() && present != pack.sha256 && std::find(own.begin(), own.end(), present) == own.end())
    throw BadInput(file.string() + " is there and was not installed by sync; move it away to get the service's");
  const bool is_there = present == pack.sha256;
  if (is_there && !needs_signature(pack)) return;
  // The service says that it has a signature, and has none.
  if (is_there && trusted_.empty() && signature_of(service, pack, "").empty()) return;
  std::string bytes;
  if (is_there) {
    bytes = read_regular_file(file, kMostPackBytes);  // its signature alone is missing
  } else {
    HttpResponse answer = service.get("/v1/packs/" + pack.name, pack.bytes);
    if (answer.status != 200) throw BadInput("the service lists it and does not have it");
    bytes = std::move(answer.body);
  }
  if (bytes.size() != pack.bytes || sha256_hex(bytes) != pack.sha256)
    throw BadInput("what came is not what was listed: " + std::to_string(bytes.size()) + " bytes of " +
                   std::to_string(pack.bytes) + (bytes.size() == pack.bytes ? ", another SHA-256" : ""));
  const std::string signature = signature_of(service, pack, bytes);
  if (const std::string why = why_unsound(file, bytes); !why.empty()) throw BadInput("it is not sound: " + why);
  // Both are ours, whichever the machine leaves there if it fails now.
  installed_[pack.name] = {pack.sha256};
  if (!present.empty() && !is_there) installed_[pack.name].push_back(present);
  write_state();
  put(file, bytes, signature);
  result.names.push_back(pack.name);
}

// The text of the signature file; "" for none. Throws BadInput if a trusted key is wanted and has not signed.
std::string PackFolder::signature_of(const ServiceClient& service, const ListedPack& pack,
                                     const std::string& bytes) const {
  if (!pack.has_signature && trusted_.empty()) return "";
  const HttpResponse answer = service.get("/v1/packs/" + pack.name + "/signature", kMostSignatureBytes);
  if (answer.status != 200) {
    if (trusted_.empty()) return "";
    throw BadInput("it is not signed, and trusted keys are given");
  }
  const std::vector<PackSignature> signatures = parse_signatures(answer.body, "its signature");
  if (trusted_.empty()) return answer.body;
  if (const std::string why = trusted_.why_refused(bytes, signatures); !why.empty()) throw BadInput("it " + why);
  return answer.body;
}

// A reader that verifies finds a matching pair at every moment: first both signatures, then the pack, then its own.
void PackFolder::put(const fs::path& file, const std::string& bytes, const std::string& signature) const {
  const fs::path beside = signature_path(file);
  if (!signature.empty()) {
    std::vector<PackSignature> both = parse_signatures(signature, "its signature");
    const std::vector<PackSignature> old = signatures_of(beside);
    for (std::size_t i = 0; i < old.size() && both.size() < 16; ++i) both.push_back(old[i]);
    replace_file(beside, signatures_text(both), Durable::yes);
  }
  replace_file(file, bytes, Durable::yes);
  if (!signature.empty()) {
    replace_file(beside, signature, Durable::yes);
  } else {
    ::unlink(beside.c_str());
  }
}

}  // namespace moetune
