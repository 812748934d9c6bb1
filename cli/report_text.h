// A report as a terminal shows it (`moetune report`). Pure functions except for the screen's width and colours, which
// the Output tells.
#pragma once

#include "cli/output.h"
#include "report/report.h"

namespace moetune {

enum class Details { as_fits, always };  // of each workload: only if there are few, or for all

// At most `most_rows` of each table, with a word on how to see all; 0: all.
void print_report(const Report& report, Details details, std::size_t most_rows, const Output& output);

}  // namespace moetune
