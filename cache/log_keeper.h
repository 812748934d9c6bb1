// Carries what a search commits from the log beside its cache file into the file itself, once a second, so that a copy
// of the file alone lacks at most the last seconds.
//
// Works on a thread and a connection of its own: it shares nothing with the connection that writes, and never makes it
// wait (PRAGMA wal_checkpoint(PASSIVE)). A checkpoint that fails is tried again a second later; whoever commits next
// says what is wrong with the disk.
#pragma once

#include <filesystem>
#include <thread>

namespace moetune {

class LogKeeper {
 public:
  explicit LogKeeper(const std::filesystem::path& database);  // ends with the object

 private:
  std::jthread thread_;
};

}  // namespace moetune
