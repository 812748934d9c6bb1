#include "cache/schema/schema.h"

#include "cache/schema/schema_check.h"

namespace moetune {
namespace {

// References between rows are not kept up for a while: dropping a table would drop what refers to it as well. Nothing
// within a transaction.
class SuspendedReferences {
 public:
  explicit SuspendedReferences(const Database& database) : database_(database) {
    database_.execute("PRAGMA foreign_keys = OFF");
  }
  ~SuspendedReferences() {
    try {
      database_.execute("PRAGMA foreign_keys = ON");
    } catch (const BrokenEnvironment&) {  // the connection is beyond use, as its next statement will say
    }
  }
  SuspendedReferences(const SuspendedReferences&) = delete;
  SuspendedReferences& operator=(const SuspendedReferences&) = delete;

 private:
  const Database& database_;
};

constexpr std::uintmax_t kSmallestPage = 512;

struct Identity {
  std::int64_t application = 0;
  std::int64_t version = 0;
  bool empty = false;  // of version 0, and no table yet
};

// Of any version but 0 it reads the file's header alone: SQLite takes longer over the tables.
Identity identity(const Database& database) {
  Identity found{database.integer_pragma("application_id"), database.integer_pragma("user_version")};
  if (found.version == 0) found.empty = !database.query("SELECT 1 FROM sqlite_schema").step();
  return found;
}

void refuse(const std::filesystem::path& path, const Identity& found, std::size_t newest) {
  if (found.application != kApplicationId && !(found.application == 0 && found.version == 0 && found.empty)) {
    throw BrokenEnvironment(path.string() + " is another application's SQLite database; name another file");
  }
  if (found.version > static_cast<std::int64_t>(newest)) {
    throw BrokenEnvironment(path.string() + " has schema " + std::to_string(found.version) +
                            ", of a newer moetune; this one knows up to " + std::to_string(newest) +
                            ": update moetune, or name another file");
  }
  if (found.version < 0) {
    throw BrokenEnvironment(path.string() + " has schema " + std::to_string(found.version) +
                            ", which no moetune makes: it was altered; move it away, or name another file");
  }
}

// For a file whose version is known and not refused.
void require_unaltered(const Database& database, std::int64_t version, std::span<const char* const> steps) {
  // Spares making the tables that the file is compared with.
  if (const std::string_view known = known_schema_digest(version);
      steps.data() == migrations().data() && !known.empty() && schema_digest(database) == known)
    return;
  const std::vector<std::string> differences =
      schema_differences(database, steps.first(static_cast<std::size_t>(version)));
  if (differences.empty()) return;
  std::string text;
  for (const std::string& difference : differences) text += (text.empty() ? "" : "; ") + difference;
  throw BrokenEnvironment(database.path().string() + " is not as moetune made it: " + text +
                          ". Move it away, or name another file");
}

}  // namespace

void refuse_foreign(const std::filesystem::path& path) {
  // SQLite would take a file shorter than any page for an empty database, and overwrite it.
  if (const auto size = std::filesystem::file_size(path); size > 0 && size < kSmallestPage) {
    throw BrokenEnvironment(path.string() +
                            " is not a moetune cache (no SQLite database); name another file");
  }
  // Not by reading the file's header: closing a descriptor of it would drop the locks that this process's
  // other connections hold on it (POSIX). Through SQLite, as immutable, nothing is locked and no journal of
  // another's rolled back.
  const Database probe(path, Database::Access::immutable, std::chrono::milliseconds(0));
  Identity found;
  try {
    found = identity(probe);
  } catch (const BrokenEnvironment&) {
    return;  // not a database, or caught in the middle of a write; under locks the sentence will be right
  }
  refuse(path, found, migrations().size());
}

void migrate(const Database& database, std::span<const char* const> steps) {
  if (const Identity found = identity(database);
      found.application == kApplicationId && found.version == static_cast<std::int64_t>(steps.size())) {
    return require_unaltered(database, found.version, steps);
  }
  const SuspendedReferences suspended(database);
  WriteTransaction transaction(database);
  const Identity found = identity(database);  // another process may have been first
  refuse(database.path(), found, steps.size());
  require_unaltered(database, found.version, steps);
  for (std::size_t i = static_cast<std::size_t>(found.version); i < steps.size(); ++i)
    database.execute(steps[i]);
  database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version = " + std::to_string(steps.size()));
  transaction.commit();
}

void require_version(const Database& database) {
  const Identity found = identity(database);
  refuse(database.path(), found, migrations().size());
  if (found.version >= kOldestReadable) return;
  throw BrokenEnvironment(database.path().string() + (found.empty ? " is empty" : " has an older schema") +
                          "; open it for writing once, with any command that stores results");
}

void require_readable(const Database& database) {
  require_version(database);
  require_unaltered(database, database.integer_pragma("user_version"), migrations());
}

}  // namespace moetune
