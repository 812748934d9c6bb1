#include "cache/log_keeper.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "cache/file/database.h"

namespace moetune {
namespace {

constexpr std::chrono::seconds kBetween{1};

// Returns the number by which a connection tells whether others have committed since it looked last.
std::int64_t carry_over(const Database& database, std::int64_t known) {
  const std::int64_t version = database.integer_pragma("data_version");
  if (version != known) database.execute("PRAGMA wal_checkpoint(PASSIVE)");
  return version;
}

void keep(const std::stop_token& stop, const std::filesystem::path& file) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::optional<Database> database;
  std::int64_t known = 0;
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, stop, kBetween, [&] { return stop.stop_requested(); })) {
    try {
      if (!database) database.emplace(file, Database::Access::read_write, std::chrono::milliseconds(0));
      known = carry_over(*database, known);
    } catch (const BrokenEnvironment&) {  // a full disk, a file that is gone
    }
  }
}

}  // namespace

LogKeeper::LogKeeper(const std::filesystem::path& database)
    : thread_([database](const std::stop_token& stop) { keep(stop, database); }) {}

}  // namespace moetune
