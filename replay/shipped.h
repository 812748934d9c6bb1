// The recordings inside the binary (replay/recordings/). Thread-safe: they are fixed. Throws BadInput where
// none fits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "replay/recording.h"

namespace moetune {

struct ShippedRecording {
  std::string path;  // among the resources
  RecordingHeader header;
};

// By path; the rows are not read.
std::vector<ShippedRecording> list_shipped_recordings();

// The recording of `kernel` for `problem` (canonical text). Throws BadInput listing the problems there are.
Recording read_shipped_recording(std::string_view kernel, std::string_view problem);

}  // namespace moetune
