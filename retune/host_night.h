// A night on several devices of one host: a process each (member_process.h) over one cache. Equal devices share the
// list by the locks of the cache: each takes the most valuable workload that nobody holds. Devices of other kinds tune
// the whole list for themselves. A GPU that is slower than its siblings is left out, as is one that dies.
//
// A job as run_night(), with the same result, events and errors, for the calling thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "retune/host_devices.h"
#include "retune/night.h"

namespace moetune {

// The command line of `moetune retune` on one device of the night.
using MemberArguments = std::function<std::vector<std::string>(const std::string& device)>;

NightResult run_host_night(const NightRequest& request, const std::vector<NightDevice>& devices,
                           const JobContext& context, const NightListener& listener, const MemberArguments& arguments);

}  // namespace moetune
