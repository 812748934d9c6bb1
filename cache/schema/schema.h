// The tables of a cache file. There is one schema: a file of another version is refused.
//
// `application_id` says that a SQLite file is ours, `user_version` which schema it has. Every change of the tables is
// a new version. Stateless.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "cache/file/database.h"

namespace moetune {

inline constexpr std::int64_t kApplicationId = 0x6D6F6574;  // "moet"
inline constexpr std::int64_t kSchemaVersion = 7;

// SQL that makes the tables in an empty file, and beside them the indexes and the summary of trials that caches have
// and packs do not.
extern const char* const kSchema;
extern const char* const kCacheSchema;
extern const char* const kDropCacheSchema;
extern const char* const kCountInserted;  // of these the trigger that counts inserted trials
// The schema_digest of what kSchema makes, and of both.
inline constexpr std::string_view kSchemaDigest = "4f9c83eec60ef873dee39d90a911065f";
inline constexpr std::string_view kCacheSchemaDigest = "9f98e11238917666f7e701d49e7817f2";

// Refuses a file that is another application's or has another schema, without a lock or a change to anything.
void refuse_foreign(const std::filesystem::path& path);

// Makes the tables if the file is empty, in one transaction. Throws BrokenEnvironment as require_readable() for any
// other file.
void make_schema(const Database& database);
// Makes what caches have beside them, unless it is there.
void make_cache_schema(const Database& database);
bool has_cache_schema(const Database& database);

// For a file opened read-only: throws BrokenEnvironment if it is empty, another application's or of another version.
void require_version(const Database& database);
// The same, and if its tables are not those that moetune makes.
void require_readable(const Database& database);

}  // namespace moetune
