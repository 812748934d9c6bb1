// `moetune report --html`: one page that needs nothing beside it. The page holds the report as JSON in a block that no
// browser runs, and every text of it becomes a text node; a policy in its head lets only its own scripts run and
// forbids the network. It stays below about 5 MB: of many trials or workloads it shows some, and says so.
//
// Pure functions except for the embedded files (report/page/, Chart.js) and the random number in the policy.
#pragma once

#include <cstddef>
#include <string>

#include "report/report.h"

namespace moetune {

// How much of a report a page shows.
struct PageBudget {
  std::size_t workloads = 2500;
  std::size_t trials = 36'000;  // of all workloads together; at most kMostShownTrials of one
  std::size_t grids = 200;
  std::size_t ranges = 100;  // tables
  std::size_t cells = 6000;  // of all tables together
  std::size_t history = 50;  // winners of one workload
  std::size_t text = 600;    // characters of one text
};

inline constexpr std::size_t kMostPageData = std::size_t{4} << 20;  // bytes of the JSON

std::string report_page(const Report& report);

// The JSON that the page holds, safe within a <script> element: "<", ">" and "&" are escaped.
std::string page_data(const Report& report, const PageBudget& budget);

}  // namespace moetune
