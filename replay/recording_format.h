// moetune's own recording format (docs/recordings.md): two JSON documents, one a line, the header and the
// rows. Stateless. Throws BadInput naming the file.
#pragma once

#include <string>
#include <string_view>

#include "replay/recording.h"

namespace moetune {

// Whether `text` begins as a recording does.
bool is_moetune_recording(std::string_view text);

Recording parse_moetune_recording(std::string_view text, std::string_view file);
RecordingHeader parse_moetune_header(std::string_view first_line, std::string_view file);
std::string format_recording(const Recording& recording);

}  // namespace moetune
