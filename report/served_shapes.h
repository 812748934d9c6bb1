// Finds the choice for one shape on each hardware of a cache: of a range table, or the shape's own winner.
//
// Plain data and functions for the thread that owns the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jobs/session/documents.h"
#include "jobs/stored/stored_results.h"

namespace moetune {

struct ServedShape {
  HardwareKey hardware;
  std::string config;
  std::string table;          // "table:3"; "" for the shape's own winner
  std::string cell;           // the problem of the table's cell that serves; "" if its choice is expected
  std::int64_t workload = 0;  // of the winner
  double time_us = 0;         // of the winner, or in the cell; 0 if it is expected
  double default_us = 0;      // there; 0 if unknown
  bool contended = false, provisional = false,
       stands_back = false;  // the last: a table goes before this winner

  double speedup() const { return time_us > 0 ? default_us / time_us : 0; }
  std::string note() const;  // "provisional, not launched: a table serves"
};

// Each hardware's: the table's choice first, then a winner. Damaged records are left out.
std::vector<ServedShape> served_shapes(const Cache& cache, const Kernel& kernel, const Problem& problem);
Document served_document(const ServedShape& shape);

}  // namespace moetune
