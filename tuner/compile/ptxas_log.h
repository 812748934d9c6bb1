// Reads ptxas's facts of each kernel (`--ptxas-options=-v`) out of the compiler's log. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace moetune {

// One kernel entry before it ever runs.
struct EntryFacts {
  int registers = 0;               // per thread
  int spill_store_bytes = 0;       // per thread
  int spill_load_bytes = 0;        // per thread
  int stack_bytes = 0;             // per thread, with everything it calls
  std::int64_t static_shared = 0;  // bytes per block
  // Why each wgmma waits for the one before it, in ptxas's words; empty if they run in a pipeline.
  std::string serialized;
  bool operator==(const EntryFacts&) const = default;
};

// Facts by entry name. Device functions that were not inlined report lines of their own, which are not an
// entry's. Text that is not ptxas's is ignored.
std::map<std::string, EntryFacts> parse_ptxas_log(std::string_view log);

}  // namespace moetune
