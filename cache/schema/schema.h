// The tables of a cache file and how an older file becomes a newer one.
//
// `application_id` says that a SQLite file is ours, `user_version` how many migrations it has seen. Every
// change of the tables is one more migration at the end of the list; a migration that has shipped is never
// edited. Stateless.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "cache/file/database.h"

namespace moetune {

inline constexpr std::int64_t kApplicationId = 0x6D6F6574;  // "moet"

// Each is SQL that takes the schema one version up, the first from an empty file.
std::span<const char* const> migrations();

// schema_digest of what the first `version` migrations make, of today's version and of those that packs have which are
// shipped; "" of others. To be added to with every migration.
std::string_view known_schema_digest(std::int64_t version);

// Refuses a file that is another application's, a newer moetune's or of a version that there never was,
// without a lock or a change to anything.
void refuse_foreign(const std::filesystem::path& path);

// Brings the file to the last of `steps` in one transaction. Throws BrokenEnvironment where the file is
// another application's or newer, or its tables are not those that the steps up to its version make.
void migrate(const Database& database, std::span<const char* const> steps = migrations());

// Files from this version on are read as they lie: a pack is never migrated. They lack the tables of later versions;
// columns that came later are shown by show_later_columns().
inline constexpr std::int64_t kOldestReadable = 2;
inline constexpr std::int64_t kSchemaWithHistory = 3;  // and with rivals
inline constexpr std::int64_t kSchemaWithRanges = 4;
inline constexpr std::int64_t kSchemaWithTimings = 5;
inline constexpr std::int64_t kSchemaWithRangeHistory = 6;
inline constexpr std::int64_t kSchemaWithTallies = 7;  // and with a mark of who writes

// For a file opened read-only: throws BrokenEnvironment where its version is not one of those.
void require_version(const Database& database);
// The same, and where its tables are not those of its version.
void require_readable(const Database& database);

// Lets this connection, which only reads, see an older file with the columns of today, as a migration would fill them.
void show_later_columns(const Database& database);

}  // namespace moetune
