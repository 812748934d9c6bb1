// The packs in the operator's folder, as clients see them. A client names one of the list: no name of a client's
// becomes a path.
//
// Thread-safe. A file that is no pack, or too large, is not listed. Errors: BadInput for a folder that is none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "jobs/documents.h"
#include "jobs/stores.h"

namespace moetune {

struct Publishing {
  bool recorded = false;  // winners of recordings too, which only a runtime opened for tests takes
  std::string sign_key;   // the secret key's file; "": the pack is not signed
};

class PackShelf {
 public:
  static constexpr std::uint64_t kMostPackBytes = std::uint64_t{256} << 20;

  // An empty folder's path: there are no packs.
  explicit PackShelf(std::filesystem::path folder);

  Document list(const std::string& kernel, const std::string& hardware);  // {"packs": [...]}

  struct File {
    std::string bytes, sha256;
  };
  std::optional<File> pack(const std::string& name);
  std::optional<std::string> signature(const std::string& name);

  // Writes the cache's winners into the folder's "service.pack", unless they are what it holds already. Returns whether
  // it has changed.
  bool publish(const CacheChoice& cache, const Publishing& how);

 private:
  struct Entry {
    std::filesystem::file_time_type changed;
    std::uint64_t bytes = 0;
    std::string sha256, hardware, kernels;
    bool is_sound = false;
  };
  void look();  // wants mutex_ held

  const std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by file name
};

}  // namespace moetune
