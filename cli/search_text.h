// What a search found, for people: wherever it ran.
#pragma once

#include "cli/output.h"
#include "jobs/search_job.h"

namespace moetune {

void print_search(const SearchRequest& request, const SearchResult& result, const Output& output);
// What to do next, as a note; nothing if all is well.
void print_search_hints(const SearchResult& result, const Output& output);

}  // namespace moetune
