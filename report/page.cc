#include "report/page.h"

#include "base/error.h"
#include "base/random_text.h"
#include "base/resources.h"

namespace moetune {
namespace {

// A folder with templates and spaces alone need not hold the page too.
std::string page_file(const std::string& name) {
  if (std::optional<std::string> text = find_embedded("report/page/" + name)) return *std::move(text);
  throw BrokenEnvironment("this moetune was built without report/page/" + name + ", so it makes no pages");
}

// The page's own scripts in one scope, in an order in which each finds what it uses.
std::string scripts() {
  std::string text = "(function () {\n'use strict';\n";
  for (const char* name : {"basics.js", "tables.js", "charts.js", "workload_view.js", "kernel_view.js", "list_views.js",
                           "range_view.js", "main.js"})
    text += page_file(name) + "\n";
  return text + "})();";
}

// Within the budget of bytes, by showing less.
std::string fitting_data(const Report& report) {
  PageBudget budget;
  std::string data = page_data(report, budget);
  while (data.size() > kMostPageData && budget.workloads > 1) {
    budget = {.workloads = budget.workloads / 2,
              .trials = budget.trials / 2,
              .grids = budget.grids / 2,
              .ranges = budget.ranges / 2 + 1,
              .cells = budget.cells / 2,
              .history = budget.history / 2 + 1,
              .text = budget.text / 2 + 20};
    data = page_data(report, budget);
  }
  return data;
}

}  // namespace

std::string report_page(const Report& report) {
  const std::string page = page_file("page.html"), nonce = random_hex(16);
  std::string made;
  // One pass: what is filled in is not searched for marks.
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t mark = page.find('@', at);
    if (mark == std::string::npos) return made + page.substr(at);
    const std::size_t end = page.find('@', mark + 1);
    made += page.substr(at, mark - at);
    const std::string name = page.substr(mark + 1, end - mark - 1);
    if (name == "NONCE") made += nonce;
    if (name == "STYLE") made += page_file("page.css");
    if (name == "CHART") made += page_file("chart.min.js");
    if (name == "SCRIPT") made += scripts();
    if (name == "DATA") made += fitting_data(report);
    at = end + 1;
  }
  return made;
}

}  // namespace moetune
