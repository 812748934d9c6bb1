// The files beside a SQLite file: NAME-journal, NAME-wal and NAME-shm. A cache may come from somebody else, and
// SQLite trusts these files: it waits for a pipe, writes through a link, and deletes the super-journal that a
// rollback journal names, whatever file that is. So they are checked before SQLite opens the cache. Stateless.
#pragma once

#include <filesystem>

namespace moetune {

// Throws BrokenEnvironment if one of them is no regular file, or if the journal names a super-journal.
// moetune's never do: they belong to changes of several files at once.
void require_sound_companions(const std::filesystem::path& database);

// Whether a rollback journal lies there that has been written to: of a change that goes on, or that was cut off.
bool has_journal(const std::filesystem::path& database);

}  // namespace moetune
