// Marks the searches that are at work on a cache file, so that nobody removes trials under a running search.
//
// Nights hold what they work on in the same way, so that several share a list.
//
// Advisory locks on an empty file beside the database ("moetune.db-searches"), one byte a workload. They end
// with their process, however it ends. Through a link no file is made. Where the file cannot be made or the
// file system knows no locks, every answer is as if nobody else were there. One object belongs to one thread
// at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>

namespace moetune {

class SearchLocks {
 public:
  explicit SearchLocks(std::filesystem::path database) : database_(std::move(database)) {}
  ~SearchLocks();
  SearchLocks(SearchLocks&& other) noexcept;
  SearchLocks& operator=(SearchLocks&&) = delete;

  // From now on, until this object is gone, a search works on `workload`. Waits for whoever is alone on it.
  void enter(std::int64_t workload);

  // Whether no other search works on `workload`; where true none can enter before release_exclusive().
  bool try_exclusive(std::int64_t workload);
  void release_exclusive(std::int64_t workload);

  // A number, far from those of workloads, for what may not be in the database yet: the same for the same text.
  static std::int64_t number_of(std::string_view text);

 private:
  bool open_file();
  bool lock(short kind, std::int64_t workload, bool wait) const;

  std::filesystem::path database_;
  int file_ = -1;
  std::set<std::int64_t> entered_;
};

}  // namespace moetune
