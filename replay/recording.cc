#include "replay/recording.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/replace_file.h"
#include "replay/compressed_file.h"
#include "replay/kernel_tuner.h"
#include "replay/recording_format.h"

namespace moetune {
namespace {

// Its document takes several times as much memory. The largest that is shipped has 1 MiB.
constexpr std::size_t kMostText = std::size_t{96} << 20;
constexpr std::size_t kHeaderBytes = std::size_t{1} << 16;

}  // namespace

double Recording::optimum_us() const {
  double best = std::numeric_limits<double>::infinity();
  for (const RecordedTrial& trial : trials) {
    if (trial.outcome == Outcome::ok) best = std::min(best, static_cast<double>(trial.time_us));
  }
  return best;
}

Recording parse_recording(std::string_view bytes, std::string_view file) {
  const std::string text = decompress(bytes, file);
  if (!is_moetune_recording(text)) return parse_kernel_tuner(text, file);
  if (text.size() <= kMostText) return parse_moetune_recording(text, file);
  throw BadInput(std::string(file) + ": its content is larger than " + std::to_string(kMostText >> 20) +
                 " MiB");
}

RecordingHeader parse_recording_header(std::string_view bytes, std::string_view file) {
  std::string text = decompress(bytes, file, kHeaderBytes);
  if (!is_moetune_recording(text)) throw BadInput(std::string(file) + ": not a moetune recording");
  if (text.find('\n') == std::string::npos) text = decompress(bytes, file);
  return parse_moetune_header(std::string_view(text).substr(0, text.find('\n')), file);
}

Recording read_recording(const std::filesystem::path& path) {
  return parse_recording(read_whole_file(path), path.string());
}

void write_recording(const Recording& recording, const std::filesystem::path& path) {
  replace_file(path, compress_zstd(format_recording(recording)));
}

}  // namespace moetune
