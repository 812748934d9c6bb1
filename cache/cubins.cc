#include "cache/cubins.h"

#include "base/digest.h"
#include "cache/cache_file.h"

namespace moetune {
namespace {

// The cubin of that digest, if it is stored and sound, which is looked at once; else 0.
std::int64_t find_cubin(CacheFile& file, const std::string& name) {
  std::int64_t& known = file.sound_cubins[name];
  if (known != 0 && file.database.query("SELECT 1 FROM cubins WHERE id = ? AND digest = ?", known, name).step())
    return known;
  Query row = file.database.query("SELECT id, frame, bytes, digest FROM cubins WHERE digest = ?", name);
  return known = row.step() && unpacked(row, 1) ? row.integer(0) : 0;
}

// Another one after each change by another connection.
std::int64_t version_of(const Database& database) {
  Query row = database.query("PRAGMA data_version");
  row.step();
  return row.integer(0);
}

}  // namespace

std::optional<Blob> unpacked(const Query& row, int column) {
  std::optional<Blob> cubin = decompress(row.bytes(column), row.integer(column + 1));
  if (cubin && digest(*cubin) != row.text(column + 2)) return std::nullopt;
  return cubin;
}

const Blob* UnpackedCubins::find(const Database& database, const std::string& digest) {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  const std::int64_t version = version_of(database);
  if (version != version_ || bytes_ > kMostBytes) {
    known_.clear();
    bytes_ = 0;
    version_ = version;
  }
  if (const auto known = known_.find(digest); known != known_.end()) return &known->second;
  Query row = database.query("SELECT frame, bytes, digest FROM cubins WHERE digest = ?", digest);
  std::optional<Blob> cubin = row.step() ? unpacked(row, 0) : std::nullopt;
  if (!cubin) return nullptr;
  bytes_ += cubin->size();
  return &known_.emplace(digest, *std::move(cubin)).first->second;
}

std::int64_t store_cubin(CacheFile& file, const StoredLaunch& launch) {
  if (launch.config.empty()) return 0;
  const std::string name = digest(launch.cubin);
  if (const std::int64_t known = find_cubin(file, name); known != 0) return known;
  // A damaged frame under this digest would stay; the sound one takes its place.
  file.database.run(
      "INSERT INTO cubins (digest, frame, bytes) VALUES (?, ?, ?)"
      " ON CONFLICT (digest) DO UPDATE SET frame = excluded.frame, bytes = excluded.bytes",
      name, compress(launch.cubin), static_cast<std::int64_t>(launch.cubin.size()));
  return find_cubin(file, name);
}

void drop_unused(const Database& database, const std::vector<std::int64_t>& rows) {
  for (const std::int64_t row : rows) {
    database.run(
        "DELETE FROM cubins WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM winners WHERE cubin = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM winners WHERE fallback_cubin = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM history WHERE cubin = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM history WHERE fallback_cubin = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM range_cubins WHERE cubin = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM range_history_cubins WHERE cubin = ?1)",
        row);
  }
}

Blob read_cubin(const Database& database, const std::string& digest) {
  Query row = database.query("SELECT frame, bytes, digest FROM cubins WHERE digest = ?", digest);
  if (row.step()) {
    if (std::optional<Blob> cubin = unpacked(row, 0)) return *std::move(cubin);
  }
  throw BrokenEnvironment("cubin " + digest + " in " + database.path().string() +
                          " is damaged (it does not match its digest) or gone");
}

}  // namespace moetune
