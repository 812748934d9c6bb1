// Prints the result of a search for people, wherever the search ran.
#pragma once

#include <optional>
#include <string>

#include "cli/output.h"
#include "jobs/search_job.h"

namespace moetune {

// The measured figure of a trial that has a time: "31.2 µs", or of another objective: "9.4 GFLOP/s".
std::string measured_text(const std::optional<Objective>& objective, const Trial& trial);

void print_search(const SearchRequest& request, const SearchResult& result, const Output& output);
// Prints what to do next as a note; nothing if all is well.
void print_search_hints(const SearchResult& result, const Output& output);

}  // namespace moetune
