#include "replay/shipped.h"

#include <filesystem>

#include "base/error.h"
#include "base/resources.h"

namespace moetune {

std::string ShippedRecording::name() const {
  const std::string file = std::filesystem::path(path).filename();
  return file.substr(0, file.find('.'));
}

Recording ShippedRecording::read(const std::string& objective) const {
  return parse_recording(read_resource(path), path, objective);
}

std::vector<ShippedRecording> list_shipped_recordings() {
  std::vector<ShippedRecording> shipped;
  for (const std::string& path : list_resources("replay/recordings/")) {
    if (!path.ends_with(".json.zst")) continue;
    ShippedRecording recording{path, {}, ""};
    try {
      recording.header = parse_recording_header(read_resource(path), path);
    } catch (const BadInput& error) {
      recording.damage = error.what();
    }
    shipped.push_back(std::move(recording));
  }
  return shipped;
}

}  // namespace moetune
