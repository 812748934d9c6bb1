// The packs that `moetune sync` keeps in a folder as a service lists them.
//
// A pack is installed whole or not at all: its size and SHA-256 are those of the list, its signature is one of the
// trusted keys' if there are any, `moetune cache check` finds it sound, and then it is renamed into place. What the
// service lists no more stays, and a file that sync did not install is never replaced. `.moetune-sync.json` in the
// folder says what was.
//
// One object at a time on a folder (sync/sync.h holds its lock). Errors: ServiceFailure, and BrokenEnvironment for a
// folder that cannot be written; a single pack that is not as it should be is a warning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cache/pack_signature.h"
#include "sync/service_client.h"

namespace moetune {

struct ListedPack {
  std::string name;    // "h200.pack": letters, digits, '.', '_' and '-'
  std::string sha256;  // 64 digits
  std::uint64_t bytes = 0;
  bool has_signature = false;
};

struct PackList {
  std::vector<ListedPack> packs;
  std::vector<std::string> warnings;  // of entries that are left out
};

// Parses the body of GET /v1/packs. Throws BadInput that begins with `what` for a text that is no list.
PackList parse_pack_list(std::string_view text, const std::string& what);

struct InstalledPacks {
  std::vector<std::string> names;     // that are new, or were replaced
  std::vector<std::string> warnings;  // what was not installed, and why
};

class PackFolder {
 public:
  PackFolder(std::filesystem::path folder, TrustedKeys trusted);

  // Brings the folder up to what the service lists.
  InstalledPacks update(const ServiceClient& service);

 private:
  struct Known {  // of a file, by which its digest is still right
    std::int64_t size = 0, changed_ns = 0;
    std::uint64_t inode = 0;
    std::string sha256;
  };

  void read_state();
  void write_state() const;
  void forget_list();
  void remove_left_overs() const;
  std::string digest_of(const std::filesystem::path& file);
  void install(const ServiceClient& service, const ListedPack& pack, InstalledPacks& result);
  bool needs_signature(const ListedPack& pack) const;
  std::string signature_of(const ServiceClient& service, const ListedPack& pack, const std::string& bytes) const;
  void put(const std::filesystem::path& file, const std::string& bytes, const std::string& signature) const;

  const std::filesystem::path folder_;
  const TrustedKeys trusted_;
  std::map<std::string, Known> known_;
  // Contents of the state file.
  std::string list_etag_, list_;                               // the last list, and by what name the service knows it
  std::map<std::string, std::vector<std::string>> installed_;  // SHA-256 by name: the last, and the one before
};

}  // namespace moetune
