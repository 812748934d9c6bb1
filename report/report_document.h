// A report as data for programs: the document of --json, and the lines of --csv. Pure functions.
#pragma once

#include <string>

#include "report/report.h"

namespace moetune {

Document report_document(const Report& report);

// A line for each workload, with a header, as RFC 4180 has it; a figure that is not known is empty. Text that a
// spreadsheet would take for a formula begins with an apostrophe.
std::string report_csv(const Report& report);

// The same for the cells of all range tables.
std::string report_ranges_csv(const Report& report);

}  // namespace moetune
