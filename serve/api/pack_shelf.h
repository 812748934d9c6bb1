// The packs in the operator's folder, as clients see them. A client names one of the list: no name of a client's
// becomes a path.
//
// Thread-safe; whoever asks for a pack that is known does not wait for one that is being read. A file that is no pack,
// or too large, is not listed. Errors: BadInput for a folder that is none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "cache/pack_signature.h"
#include "jobs/session/documents.h"
#include "jobs/session/stores.h"

namespace moetune {

class PackShelf {
 public:
  // An empty folder's path: there are no packs.
  explicit PackShelf(std::filesystem::path folder, std::uint64_t most_bytes = kMostPackBytes);

  Document list();  // {"packs": [...]}

  struct File {
    std::uint64_t bytes = 0;
    std::string sha256;
    std::function<std::string()> pieces;  // of the file as it was then; "" is its end
  };
  std::optional<File> pack(const std::string& name);
  std::optional<std::string> signature(const std::string& name);

  // Writes the cache's winners into the folder's "service.pack", unless they are what it holds already, and signs it if
  // this key has not. Returns whether something has changed. Throws BadInput, and leaves what is there, for winners
  // that make too large a pack, and for a cache that has none (any more) while there is a pack.
  bool publish(const CacheChoice& cache, const std::string& sign_key);

 private:
  struct Entry {
    std::int64_t changed_ns = 0;
    std::uint64_t bytes = 0, inode = 0;
    std::string sha256;
    std::set<std::string> hardware, kernels;
    bool is_sound = false;
  };
  using Entries = std::map<std::string, Entry>;  // by file name
  void look();
  std::optional<Entry> find(const std::string& name);
  Entry read(const std::filesystem::path& file, Entry entry) const;

  const std::filesystem::path folder_;
  const std::uint64_t most_bytes_;
  std::mutex looking_, publishing_;  // each held for long; taken before mutex_
  std::mutex mutex_;
  Entries entries_;
  std::string published_;  // of which records, in which files; under publishing_
};

}  // namespace moetune
