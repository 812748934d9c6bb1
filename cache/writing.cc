// The part of Cache that keeps its main file up with its log while a search writes, and marks it meanwhile.
#include "cache/cache_impl.h"

namespace moetune {
namespace {

// Among the bytes of the file of locks, which begin with workload 1.
constexpr std::int64_t kWriters = 0;

bool is_marked(const Database& database) { return database.query("SELECT 1 FROM writing").step(); }

}  // namespace

Cache::Impl::~Impl() {
  if (!keeper) return;
  keeper.reset();
  try {
    end_writing();
  } catch (const BrokenEnvironment&) {  // a full disk: the mark stays, until the next writer takes it away
  }
}

// The mark is in the main file before the first trial is in the log.
void Cache::Impl::begin_writing() {
  if (!has_log || keeper) return;
  searches.enter(kWriters);
  database.run("INSERT OR REPLACE INTO writing VALUES (1, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))");
  database.execute("PRAGMA wal_checkpoint(PASSIVE)");
  keeper.emplace(database.path());
}

void Cache::Impl::end_writing() {
  if (!is_marked(database) || !searches.try_exclusive(kWriters)) return;
  database.run("DELETE FROM writing");
  searches.release_exclusive(kWriters);
}

bool Cache::lacks_log() const {
  if (!is_marked(impl_->database)) return false;
  std::error_code absent;
  const std::filesystem::path file =
      std::filesystem::weakly_canonical(path(), absent);  // SQLite resolves links, too
  const std::uintmax_t log = std::filesystem::file_size(file.string() + "-wal", absent);
  return absent || log == 0;
}

}  // namespace moetune
