// Cubins that stored range tables lack because the space's defaults have changed since they were made. Between the
// cells serves what is the default today; without its cubin a runtime takes the nearest winner of any.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace moetune {

struct CompletedTable {
  FamilyRange range;                 // as it was
  std::size_t defaults = 0;          // of the problems between its cells
  std::vector<std::string> added;    // configurations whose cubins were compiled and stored beside the table's
  std::vector<std::string> refused;  // those that do not compile or cannot be launched, each with the reason
  std::string left_out;              // why the table was not looked at; "" if it was
};

// Compiles with the toolchain found here, for the hardware that a table names; no GPU is needed. Tables of another
// toolchain or of a recording, and those whose cells are no problems today, are left out. The times of a table stay,
// and so do its key and date: a cell keeps the default that it met, and a changed one is measured by the next search.
// `each` is called once a table, when what it lacked is stored. A stop leaves the table at hand as it was and ends it;
// those before are complete. Throws BrokenEnvironment where NVRTC cannot be loaded.
void complete_tables(Cache& cache, const std::function<void(const CompletedTable&)>& each, std::stop_token stop);

}  // namespace moetune
