// Whether the tables of a file are those that moetune makes. Stateless.
#pragma once

#include <string>
#include <vector>

#include "cache/file/database.h"

namespace moetune {

// A sentence for every table, column, index, trigger or view that is missing, altered or strange, compared
// with what kSchema makes of an empty file; none where all is as it should be. What SQLite keeps for itself
// (ANALYZE) does not count. Throws BrokenEnvironment where the schema cannot be read.
std::vector<std::string> schema_differences(const Database& database);

// 32 hexadecimal digits over all that the comparison looks at, but for how it is laid out.
std::string schema_digest(const Database& database);

}  // namespace moetune
