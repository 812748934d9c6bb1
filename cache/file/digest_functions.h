// SQL functions that every connection has, so that one statement writes a record with its digest and another
// reads whether they agree. Stateless.
//
//   moetune_digest(value, ...)          32 hexadecimal digits over the values, with their types
//   moetune_tally(digest)               over the rows of a table: one number, whatever their order
//   moetune_tallied(tally, added, removed)  the same with one row's digest more and one less; either may be NULL
//   moetune_unpacked_digest(frame, n)   of the n bytes that a zstd frame holds; NULL if it does not hold them
#pragma once

namespace SQLite {
class Database;
}

namespace moetune {

void add_digest_functions(SQLite::Database& connection);

}  // namespace moetune
