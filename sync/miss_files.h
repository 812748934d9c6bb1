// The miss files of a folder (moetune_write_misses, names that end with "misses.json") on their way to a service.
//
//   NAME           what a runtime wrote: its counts since it was opened
//   NAME.claimed   taken for posting, so that a runtime may write NAME again meanwhile
//   NAME.posted    what was posted last, also of a file that is not through: later counts of the same runtime are sent
//                  without these
//   NAME.refused   the service would not have it, or it is no miss file; it is kept and not tried again
//
// At least once: a process that dies between the service's answer and what it writes then sends a request's misses
// twice. Counts are weights, so that costs nothing. One object at a time on a folder (sync/sync.h holds its lock).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sync/service_client.h"

namespace moetune {

inline constexpr std::string_view kPostedEnding = "misses.json.posted";  // of NAME.posted

struct PostedMisses {
  std::size_t files = 0, misses = 0;
  std::vector<std::string> warnings;
};

// Posts what is there, and counts it in `result`. Throws ServiceFailure, with what was not posted kept, and
// BrokenEnvironment for a folder that cannot be read, or, once all other files are posted, for a file that cannot be
// renamed.
void post_misses(const ServiceClient& service, const std::filesystem::path& folder, PostedMisses& result);

}  // namespace moetune
