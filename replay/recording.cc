#include "replay/recording.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/replace_file.h"
#include "base/utf8.h"
#include "replay/compressed_file.h"
#include "replay/objective_choice.h"
#include "replay/recording_format.h"
#include "replay/result_files.h"

namespace moetune {
namespace {

// Its document takes several times as much memory. The largest that is shipped has 1 MiB.
constexpr std::size_t kMostText = std::size_t{96} << 20;
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;

// Names are shown on terminals, one line each. Other control characters of the GPU and the problem are escaped there.
void require_one_line(const std::string& text, const std::string& what, std::string_view file,
                      bool takes_controls = false) {
  std::string shown = escape_controls(text);
  const bool has_line_ends = text.find_first_of("\n\t") != std::string::npos;
  if (!has_line_ends && (takes_controls || shown == text)) return;
  std::string escaped;
  for (const char c : shown) escaped += c == '\n' ? "\\x0a" : c == '\t' ? "\\x09" : std::string(1, c);
  throw BadInput(std::string(file) + ": " + what + " '" + shortened(escaped, 80) + "' holds a " +
                 (has_line_ends ? "line end or a tab" : "control character") + "; a name is one line of text");
}

Recording with_sound_names(Recording recording, std::string_view file) {
  require_one_line(recording.kernel, "the kernel's name", file);
  require_one_line(recording.hardware.name, "the GPU's name", file, true);
  require_one_line(recording.problem, "the problem", file, true);
  for (const Parameter& parameter : recording.space.parameters()) {
    require_one_line(parameter.name, "the parameter", file);
    if (!parameter.is_named()) continue;
    for (const Value& value : parameter.values)
      require_one_line(value.text(), "a value of '" + parameter.name + "',", file);
  }
  return recording;
}

}  // namespace

double Recording::optimum_us() const {
  double best = std::numeric_limits<double>::infinity();
  for (const RecordedTrial& trial : trials) {
    if (trial.outcome == Outcome::ok) best = std::min(best, static_cast<double>(trial.time_us));
  }
  return best;
}

Recording parse_recording(std::string_view bytes, std::string_view file, const std::string& objective) {
  std::string text = decompress(bytes, file);
  if (!is_moetune_recording(text)) return with_sound_names(parse_result_file(std::move(text), file, objective), file);
  if (!objective.empty() && objective != "time" && objective != "time:min" && objective != kAnyObjective)
    throw BadField("objective", std::string(file) + " is moetune's own recording, which holds times alone: time");
  if (text.size() <= kMostText) return with_sound_names(parse_moetune_recording(text, file), file);
  throw BadInput(std::string(file) + ": its content is larger than " + std::to_string(kMostText >> 20) + " MiB");
}

RecordingHeader parse_recording_header(std::string_view bytes, std::string_view file) {
  std::string text = decompress(bytes, file, kHeaderBytes);
  if (!is_moetune_recording(text)) throw BadInput(std::string(file) + ": not a moetune recording");
  if (text.find('\n') == std::string::npos) text = decompress(bytes, file);
  RecordingHeader header = parse_moetune_header(std::string_view(text).substr(0, text.find('\n')), file);
  require_one_line(header.kernel, "the kernel's name", file);
  require_one_line(header.hardware, "the GPU's name", file, true);
  require_one_line(header.problem, "the problem", file, true);
  return header;
}

Recording read_recording(const std::filesystem::path& path, const std::string& objective) {
  return parse_recording(read_whole_file(path), path.string(), objective);
}

void write_recording(const Recording& recording, const std::filesystem::path& path) {
  replace_file(path, compress_zstd(format_recording(recording)));
}

}  // namespace moetune
