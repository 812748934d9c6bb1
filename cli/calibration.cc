#include "cli/calibration.h"

#include "base/error.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text.h"

namespace moetune {
namespace {

struct Stream {
  const char* name;     // in the cache
  const char* what;     // for people
  const char* problem;  // of decode_kernel
};

// 2 GiB through memory each, far past any L2.
constexpr Stream kStreams[] = {
    {"read_tb_s", "read ceiling", "elements=536870912,write=none"},
    {"copy_tb_s", "copy ceiling", "elements=268435456,write=all"},
};
constexpr std::size_t kTrials = 48;

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
  return {cache->calibration(hardware, "read_tb_s"), cache->calibration(hardware, "copy_tb_s")};
}

void calibrate(const std::string& device, const CacheChoice& cache, const Output& output,
               std::stop_token stop) {
  for (const Stream& stream : kStreams) {
    const WorkloadOptions workload{.kernel = "decode_kernel", .problem = stream.problem};
    Session session(choose_device(device, workload), cache, {}, output);
    const std::optional<double> rate = measure(session, output, stop);
    if (!rate) return;
    if (session.cache() != nullptr) session.cache()->put_calibration(session.info().key, stream.name, *rate);
    output.note(std::string(stream.what) + " of " + session.info().key.name + ": " + rate_text(*rate));
  }
}

}  // namespace moetune
