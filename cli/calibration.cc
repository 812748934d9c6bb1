#include "cli/calibration.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text.h"

namespace moetune {
namespace {

struct Target {
  const char* what;  // for people
  std::string problem;
  std::optional<double> Ceilings::*figure;
};

constexpr std::size_t kTrials = 96;

// A launch costs 1 or 2 µs whatever it moves: 8 GiB make that vanish, a sixteenth of a smaller memory nearly
// so.
std::string stream_problem(const char* write, std::int64_t bytes_an_element, std::int64_t memory_bytes) {
  const std::int64_t bytes = std::min<std::int64_t>(std::int64_t{8} << 30, memory_bytes / 16);
  const auto elements = std::bit_floor(static_cast<std::uint64_t>(bytes / bytes_an_element));
  return "elements=" + std::to_string(elements) + ",write=" + write;
}

std::vector<Target> targets(std::int64_t memory_bytes) {
  return {{"read ceiling", stream_problem("none", 4, memory_bytes), &Ceilings::read_tb_s},
          {"copy ceiling", stream_problem("all", 8, memory_bytes), &Ceilings::copy_tb_s},
          {"least launch", "elements=1,write=none", &Ceilings::launch_us}};
}

// Microseconds of the best configuration; nullopt where interrupted.
std::optional<double> best_time(Session& session, const Output& output, std::stop_token stop) {
  TuneRequest request = session.request();
  request.strategy = "local";  // streams differ little: descent with many open beats a model that waits
  request.budget = kTrials;
  request.fresh = true;
  Progress progress(output, {.budget = kTrials, .bytes = session.bytes()});
  const TuneResult result = tune(request, session.tools(&progress), stop);
  progress.finished();
  if (result.interrupted) return std::nullopt;
  if (!result.best)
    throw BrokenEnvironment("no configuration of decode_kernel works on " + session.info().key.name);
  return result.best->result.measurement.median_us;
}

}  // namespace

Ceilings calibrate(const DeviceInfo& device, const CacheChoice& cache, const Output& output,
                   std::stop_token stop) {
  Ceilings reached;
  for (const Target& target : targets(device.key.memory_bytes)) {
    const WorkloadOptions workload{.kernel = "decode_kernel", .problem = target.problem};
    Session session(choose_device(device.id, workload), cache, {}, output);
    const std::optional<double> time = best_time(session, output, stop);
    if (!time) return reached;
    const bool is_rate = target.figure != &Ceilings::launch_us;
    reached.*target.figure = is_rate ? session.bytes() / *time * 1e-6 : *time;
    if (session.cache() != nullptr) store_ceilings(*session.cache(), session.info().key, reached);
    output.note(std::string(target.what) + " of " + session.info().key.name + ": " +
                (is_rate ? rate_text(*(reached.*target.figure)) : time_text(*time)));
  }
  return reached;
}

}  // namespace moetune
