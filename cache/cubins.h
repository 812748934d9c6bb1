// The cubins that winners and range tables share, as rows of a cache file. For cache/ alone; stateless.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "cache/file/database.h"
#include "cache/winners.h"

namespace moetune {

// The row of a launch's cubin, stored if it is new; 0 for a launch that has none. Within a transaction.
std::int64_t store_cubin(CacheFile& file, const StoredLaunch& launch);

// Throws BrokenEnvironment if it is not there or does not match its digest.
Blob read_cubin(const Database& database, const std::string& digest);

// Cubins by their digests, each read, unpacked and compared with its digest once: winners of one variant share theirs.
// Forgets them when another connection has changed the file, and when they become too many.
class UnpackedCubins {
 public:
  // nullptr if it is not there or does not match its digest. Valid until the next call.
  const Blob* find(const Database& database, const std::string& digest);

 private:
  std::map<std::string, Blob> known_;
  std::size_t bytes_ = 0;
  std::int64_t version_ = 0;  // of the file, as SQLite counts
};

// From the columns frame, bytes and digest that begin at `column`; nullopt if they do not agree.
std::optional<Blob> unpacked(const Query& row, int column);

// Removes those of these rows that nothing has any more. Within a transaction.
void drop_unused(const Database& database, const std::vector<std::int64_t>& rows);
// Removes all cubins that nothing has any more.
inline constexpr const char* kDropUnusedCubins =
    "DELETE FROM cubins WHERE id NOT IN (SELECT cubin FROM winners UNION ALL"
    " SELECT fallback_cubin FROM winners WHERE fallback_cubin IS NOT NULL UNION ALL SELECT cubin FROM history"
    " UNION ALL SELECT fallback_cubin FROM history WHERE fallback_cubin IS NOT NULL"
    " UNION ALL SELECT cubin FROM range_cubins UNION ALL SELECT cubin FROM range_history_cubins)";

}  // namespace moetune
