// A cache file with a record of every kind, and what can be read of such a file. Free functions.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "cache/cache.h"
#include "search/random.h"

namespace moetune::fuzz {

// Three workloads with trials, two of them with a winner, a build and ceilings.
void write_sample_cache(const std::filesystem::path& file);

// All that is read of the records: a line each, of their keys and values. What is damaged is not among them.
std::multiset<std::string> read_all(Cache& cache);

// A line for the winner and what belongs to it.
std::string line_of(const WorkloadKey& key, const WinnerRecord& winner);

// Throws Finding if a line is not among `known`.
void require_known(const std::multiset<std::string>& known, const std::multiset<std::string>& read, const char* where);

// SQL that alters one record or table of a cache, mostly in ways that SQLite accepts.
std::string random_change(Random& random);

// A folder's file anew, without what SQLite left beside it.
void write_database(const std::filesystem::path& file, const std::string& bytes);

}  // namespace moetune::fuzz
