// The recordings inside the binary (replay/recordings/). Thread-safe: they are fixed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "replay/recording.h"

namespace moetune {

struct ShippedRecording {
  std::string path;  // among the resources
  RecordingHeader header;
  std::string damage;  // why the header cannot be read, which then is empty

  // The name for --device replay:NAME: "decode_attention-b16" for "replay/recordings/decode_attention-b16.json.zst".
  std::string name() const;
  // Whole; throws BadInput where it is damaged, and for another objective than time.
  Recording read(const std::string& objective = "time") const;
};

// By path; the rows are not read. One that is damaged hides no other.
std::vector<ShippedRecording> list_shipped_recordings();

}  // namespace moetune
