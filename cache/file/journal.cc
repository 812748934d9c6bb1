#include "cache/file/journal.h"

namespace moetune {

// journal.
std::string choose_journal(const Database& database, const std::string& network) {
  if (network.empty() && database.set_journal("wal")) {
    // NORMAL syncs at checkpoints only. A killed process loses nothing: its commits are in the kernel's
    // pages. After a power cut the file is whole and may lack the last trials.
    database.execute("PRAGMA synchronous = NORMAL");
    return {};
  }
  database.set_journal("delete");
  database.execute("PRAGMA synchronous = FULL");
  const std::string place =
      network.empty() ? "a file system without shared memory" : network + ", a network file system";
  return database.path().string() + " lies on " + place +
         ": it is kept with a slower rollback journal, and should be used from one machine at a time";
}

}  // namespace moetune
