// How commits are made durable, by where the file lies. Stateless.
#pragma once

#include <string>

#include "cache/file/database.h"

namespace moetune {

// WAL on a local disk. Its shared memory does not cross hosts, so on a network file system (`network` names
// its kind, empty for a local one) the file gets a rollback journal, and the result is a sentence for the
// user; else it is empty.
std::string choose_journal(const Database& database, const std::string& network);

}  // namespace moetune
