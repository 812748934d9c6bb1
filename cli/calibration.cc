#include "cli/calibration.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text.h"

namespace moetune {
namespace {

struct Stream {
  const char* name;            // in the cache
  const char* what;            // for people
  const char* write;           // decode_kernel's dimension
  std::int64_t element_bytes;  // moved for each f32 element
  std::optional<double> Ceilings::*figure;
};

constexpr Stream kStreams[] = {
    {kReadCeiling, "read ceiling", "none", 4, &Ceilings::read_tb_s},
    {kCopyCeiling, "copy ceiling", "all", 8, &Ceilings::copy_tb_s},
};
constexpr std::size_t kTrials = 96;

// A launch costs 1 or 2 µs whatever it moves: 8 GiB make that vanish, a sixteenth of a smaller memory nearly
// so.
std::string stream_problem(const Stream& stream, std::int64_t memory_bytes) {
  const std::int64_t bytes = std::min<std::int64_t>(std::int64_t{8} << 30, memory_bytes / 16);
  const auto elements = std::bit_floor(static_cast<std::uint64_t>(bytes / stream.element_bytes));
  return "elements=" + std::to_string(elements) + ",write=" + stream.write;
}

// Terabytes a second of the best configuration; nullopt where interrupted.
std::optional<double> measure(Session& session, const Output& output, std::stop_token stop) {
  TuneRequest request = session.request();
  request.budget = kTrials;
  request.fresh = true;
  Progress progress(output, {.budget = kTrials, .bytes = session.bytes()});
  const TuneResult result = tune(request, session.tools(&progress), stop);
  progress.finished();
  if (result.interrupted) return std::nullopt;
  if (!result.best)
    throw BrokenEnvironment("no configuration of decode_kernel works on " + session.info().key.name);
  return session.bytes() / result.best->result.measurement.median_us * 1e-6;
}

}  // namespace

Ceilings stored_ceilings(const Cache* cache, const HardwareKey& hardware) {
  if (cache == nullptr) return {};
  return {cache->calibration(hardware, kReadCeiling), cache->calibration(hardware, kCopyCeiling)};
}

Ceilings calibrate(const DeviceInfo& device, const CacheChoice& cache, const Output& output,
                   std::stop_token stop) {
  Ceilings reached;
  for (const Stream& stream : kStreams) {
    const WorkloadOptions workload{.kernel = "decode_kernel",
                                   .problem = stream_problem(stream, device.key.memory_bytes)};
    Session session(choose_device(device.id, workload), cache, {}, output);
    const std::optional<double> rate = measure(session, output, stop);
    if (!rate) return reached;
    reached.*stream.figure = rate;
    if (session.cache() != nullptr) session.cache()->put_calibration(session.info().key, stream.name, *rate);
    output.note(std::string(stream.what) + " of " + session.info().key.name + ": " + rate_text(*rate));
  }
  return reached;
}

}  // namespace moetune
