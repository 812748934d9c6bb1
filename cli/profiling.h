// Command lines for Nsight Compute and Nsight Systems, and the scripts that `bench --ncu` and `--nsys` write of them.
// Pure, but for write_profile_script(). Errors: BadInput, BrokenEnvironment for a file that cannot be written.
#pragma once

#include <string>
#include <vector>

#include "jobs/bench_job.h"

namespace moetune {

enum class Profiler { ncu, nsys };

// One word each. ncu sees one run of the target's launches, after one that warms up, in `moetune verify`; nsys the
// whole of `moetune bench`. What they find goes to files named like the script: FILE.csv, FILE.nsys-rep.
std::vector<std::string> profile_command(Profiler profiler, const ProfileTarget& target, const BenchRequest& request,
                                         const std::string& script);

// Makes the script anew, and returns the command as a shell takes it.
std::string write_profile_script(Profiler profiler, const ProfileTarget& target, const BenchRequest& request,
                                 const std::string& script);

}  // namespace moetune
