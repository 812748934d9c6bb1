// Makes a list to tune from the shapes that a server missed. A pure function over files; throws as read_misses does.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "workloads/workload_list.h"

namespace moetune {

struct MissedList {
  WorkloadList list;               // an entry a kernel, weighted by picks
  bool none = false;               // the file lists no miss
  std::vector<std::string> notes;  // what this moetune has no kernel or no problem for
};

// With ranges ("batch=1..256,context=512..128k") the misses of a family become one entry over those of them that its
// kernel has, with the weight of all; kernels that have none keep their shapes. Throws BadField (over) for a range that
// no kernel in the file has, or no kernel at all if nothing is left of the file.
MissedList workloads_from_misses(const std::filesystem::path& file, const std::string& over = "");

}  // namespace moetune
