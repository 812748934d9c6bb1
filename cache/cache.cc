#include "cache/cache.h"

#include <stdexcept>

#include "base/environment.h"
#include "cache/cache_file.h"
#include "cache/file/companions.h"
#include "cache/file/file_system.h"
#include "cache/file/journal.h"
#include "cache/pack_rows.h"
#include "cache/schema/schema.h"
#include "cache/tallies.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    throw BrokenEnvironment("cannot make the folder " + folder.string() + " for the cache: " + failure.message());
  }
}

// Absolute, so that SQLite sees neither ":memory:" nor "file:" nor its empty name for a temporary database.
fs::path require_plausible(const fs::path& given, Cache::Mode mode) {
  if (given.empty()) throw BadInput("a cache needs the path of a file");
  const fs::path path = fs::absolute(given);
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) throw BrokenEnvironment(path.string() + " is a folder, not a cache file");
  if (fs::exists(status)) {
    if (fs::is_regular_file(status)) return path;
    throw BrokenEnvironment(path.string() + " is not a regular file; name another for the cache");
  }
  if (status.type() == fs::file_type::none) {
    throw BrokenEnvironment("cannot look at " + path.string() + ": " + failure.message());
  }
  if (mode != Cache::Mode::create) throw BadInput("there is no cache at " + path.string());
  make_folder(path.parent_path());
  return path;
}

Database::Access access_for(Cache::Mode mode) {
  switch (mode) {
    case Cache::Mode::create:
      return Database::Access::create;
    case Cache::Mode::read_write:
      return Database::Access::read_write;
    case Cache::Mode::read_only:
    case Cache::Mode::inspect:
      return Database::Access::read_only;
  }
  throw std::logic_error("an enumerator without a meaning");
}

// A pack is never changed.
void refuse_pack(const Database& database) {
  if (database.integer_pragma("user_version") == 0) return;  // a new file
  require_readable(database);
  if (read_manifest(database))
    throw BrokenEnvironment(database.path().string() + " is a pack, which is only read; name a cache to write to");
}

}  // namespace

Cache::Cache(std::unique_ptr<CacheFile> file)
    : workloads(*file), trials(*file), winners(*file), ranges(*file), builds(*file), file_(std::move(file)) {}
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;
Cache::~Cache() = default;

Cache Cache::open(const fs::path& given, Mode mode, const CacheOptions& options) {
  const fs::path path = require_plausible(given, mode);
  require_sound_companions(path);
  if (std::error_code absent; fs::file_size(path, absent) > 0 && !absent) refuse_foreign(path);
  auto file = std::make_unique<CacheFile>(Database(path, access_for(mode), options.busy_timeout),
                                          mode == Mode::read_only || mode == Mode::inspect, options);
  if (mode == Mode::inspect) {
    require_version(file->database);
  } else if (mode == Mode::read_only) {
    require_readable(file->database);
  } else {
    refuse_pack(file->database);
    make_schema(file->database);
    make_cache_schema(file->database);
    file->warning = choose_journal(file->database, network_file_system(path));
    file->has_log = file->warning.empty();
    keep_tallies(file->database);
    file->end_writing();  // of a search that was killed
  }
  if (const std::string& why = file->database.missing_locks(); !why.empty())
    file->warning = "locks do not work where " + path.string() + " lies (" + why +
                    "): it is read as it is, and what a search writes meanwhile may show as damage";
  if (mode == Mode::read_only) file->pack = read_manifest(file->database);  // check() reads it in its turn
  return Cache(std::move(file));
}

Cache Cache::in_memory() {
  const fs::path nowhere = ":memory:";
  auto file =
      std::make_unique<CacheFile>(Database(nowhere, Database::Access::create, std::chrono::milliseconds(0)), false);
  make_schema(file->database);
  keep_tallies(file->database);
  return Cache(std::move(file));
}

std::string Cache::content() const { return file_->database.content(); }

void Cache::use_rules(RecordRules rules) { file_->rules = std::move(rules); }

Cache Cache::open_content(const fs::path& path, std::string content, Mode mode) {
  auto file = std::make_unique<CacheFile>(Database(path, std::move(content)), true);
  mode == Mode::inspect ? require_version(file->database) : require_readable(file->database);
  if (mode == Mode::read_only) file->pack = read_manifest(file->database);
  return Cache(std::move(file));
}

std::optional<Cache> Cache::open_settled(const fs::path& given, std::chrono::milliseconds age) {
  if (given.empty()) return std::nullopt;
  const fs::path path = fs::absolute(given);
  const std::optional<FileState> state = FileState::of_settled(path, age, network_file_system(path));
  if (!state) return std::nullopt;
  try {
    auto file =
        std::make_unique<CacheFile>(Database(path, Database::Access::immutable, std::chrono::milliseconds(0)), true);
    file->database.execute("PRAGMA cache_size = 48");  // each page of rows is read once, into memory that is warm
    require_readable(file->database);
    file->pack = read_manifest(file->database);
    file->settled = state;
    if (Cache cache(std::move(file)); cache.is_unchanged()) return cache;
  } catch (const BrokenEnvironment&) {
    // open() looks again, under locks, and says what is wrong.
  }
  return std::nullopt;
}

bool Cache::is_unchanged() const { return !file_->settled || FileState::of(path()) == file_->settled; }

std::optional<fs::path> Cache::find_default_path() {
  const auto variable = [](const char* name) {
    const char* value = environment_variable(name);
    return fs::path(value == nullptr ? "" : value);
  };
  // The XDG base directory specification: a relative path is invalid and ignored.
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute()) return base / "moetune" / "moetune.db";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "moetune" / "moetune.db";
  return std::nullopt;
}

fs::path Cache::default_path() {
  if (std::optional<fs::path> path = find_default_path()) return *std::move(path);
  throw BrokenEnvironment(
      "neither XDG_CACHE_HOME nor HOME names a folder for the cache; set one, or name a cache file");
}

std::shared_ptr<const void> Cache::snapshot() const { return std::make_shared<ReadTransaction>(file_->database); }

const fs::path& Cache::path() const { return file_->database.path(); }

const std::string& Cache::warning() const { return file_->warning; }

const PackManifest* Cache::manifest() const { return file_->pack ? &*file_->pack : nullptr; }

bool Cache::lacks_log() const {
  if (!file_->is_marked()) return false;
  std::error_code absent;
  const fs::path main = fs::weakly_canonical(path(), absent);  // SQLite resolves links, too
  const std::uintmax_t log = fs::file_size(main.string() + "-wal", absent);
  return absent || log == 0;
}

}  // namespace moetune
