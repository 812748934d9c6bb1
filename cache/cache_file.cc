#include "cache/cache_file.h"

#include "cache/schema/schema.h"

namespace moetune {
namespace {

// Among the bytes of the file of locks, which begin with workload 1.
constexpr std::int64_t kWriters = 0;

}  // namespace

CacheFile::~CacheFile() {
  if (!keeper) return;
  keeper.reset();
  try {
    end_writing();
  } catch (const BrokenEnvironment&) {  // a full disk: the mark stays, until the next writer takes it away
  }
}

bool CacheFile::has_counts() const {
  if (!counts) counts = has_cache_schema(database);
  return *counts;
}

bool CacheFile::is_marked() const { return database.query("SELECT 1 FROM writing").step(); }

// The mark is in the main file before the first trial is in the log.
void CacheFile::begin_writing() {
  if (!has_log || keeper) return;
  searches.enter(kWriters);
  database.run("INSERT OR REPLACE INTO writing VALUES (1, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))");
  database.execute("PRAGMA wal_checkpoint(PASSIVE)");
  keeper.emplace(database.path());
}

void CacheFile::end_writing() {
  if (!is_marked() || !searches.try_exclusive(kWriters)) return;
  database.run("DELETE FROM writing");
  searches.release_exclusive(kWriters);
}

void CacheFile::alone_on(std::int64_t workload, const std::function<void()>& change) {
  if (!searches.try_exclusive(workload)) {
    throw BrokenEnvironment("another search of this workload is running on " + database.path().string() +
                            ", and its trials stay: wait for it to end");
  }
  try {
    change();
  } catch (...) {
    searches.release_exclusive(workload);
    throw;
  }
  searches.release_exclusive(workload);
}

std::optional<std::int64_t> find_hardware(const Database& database, const HardwareKey& key) {
  Query found = database.query("SELECT id FROM hardware WHERE key = ?", key.text());
  return found.step() ? std::optional(found.integer(0)) : std::nullopt;
}

std::int64_t put_hardware(const Database& database, const HardwareKey& key) {
  const std::string text = key.text();
  {
    Query known = database.query("SELECT id, driver FROM hardware WHERE key = ?", text);
    if (known.step() && known.view(1) == key.driver) return known.integer(0);  // a damaged row stays damaged
  }
  database.run(
      "INSERT INTO hardware (key, name, compute_capability, sm_count, l2_bytes, memory_bytes, sm_clock_khz,"
      " memory_clock_khz, origin, driver) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
      " ON CONFLICT (key) DO UPDATE SET driver = excluded.driver",
      text, key.name, key.compute_capability, key.sm_count, key.l2_bytes, key.memory_bytes, key.sm_clock_khz,
      key.memory_clock_khz, key.origin, key.driver);
  database.run("UPDATE hardware AS h SET digest = " MOETUNE_HARDWARE_DIGEST " WHERE key = ?", text);
  return find_hardware(database, key).value();
}

HardwareKey hardware_of(const Query& row, int first) {
  const auto number = [&](int column) { return static_cast<int>(row.integer(first + column)); };
  return {row.text(first), number(1), number(2),           row.integer(first + 3), row.integer(first + 4),
          number(5),       number(6), row.text(first + 7), row.text(first + 8)};
}

}  // namespace moetune
