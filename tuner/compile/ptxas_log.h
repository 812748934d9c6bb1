// What ptxas says of each kernel (`--ptxas-options=-v`), read out of the compiler's log. Pure functions.
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
  bool operator==(const EntryFacts&) const = default;
};

// Facts by entry name. Device functions that were not inlined report lines of their own, which are not an
// entry's. Text that is none of ptxas's is passed over.
std::map<std::string, EntryFacts> parse_ptxas_log(std::string_view log);

}  // namespace moetune
