// Renders a search's document as text for people, wherever the search ran.
#pragma once

#include <optional>
#include <string>

#include "cli/output.h"
#include "jobs/search_job.h"

namespace moetune {

// The measured figure of a trial that has a time: "31.2 µs", or of another objective: "9.4 GFLOP/s".
std::string measured_text(const std::optional<Objective>& objective, const Trial& trial);

// "chained 12.1 µs, overlapped 11.0 µs, alone 13.2 µs; another winner if overlapped", of timings_document().
std::string timings_line(const Document& timings);

// `found`: search_document(), of this process or of a service.
void print_search(const SearchRequest& request, const Document& found, const Output& output);
// Notes what to do next; nothing if all is well.
void print_search_hints(const Document& found, const Output& output);

}  // namespace moetune
