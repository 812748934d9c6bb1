#include "replay/shipped.h"

#include "base/error.h"
#include "base/resources.h"

namespace moetune {

std::vector<ShippedRecording> list_shipped_recordings() {
  std::vector<ShippedRecording> shipped;
  for (const std::string& path : list_resources("replay/recordings/")) {
    if (path.ends_with(".json.zst"))
      shipped.push_back({path, parse_recording_header(read_resource(path), path)});
  }
  return shipped;
}

Recording read_shipped_recording(std::string_view kernel, std::string_view problem) {
  std::string others;
  for (const ShippedRecording& candidate : list_shipped_recordings()) {
    if (candidate.header.kernel != kernel) continue;
    if (candidate.header.problem == problem)
      return parse_recording(read_resource(candidate.path), candidate.path);
    others += (others.empty() ? "" : "; ") + candidate.header.problem;
  }
  throw BadInput("no shipped recording of " + std::string(kernel) + " for " + std::string(problem) +
                 (others.empty() ? ": there is none of this kernel" : "; there is one for: " + others));
}

}  // namespace moetune
