#include "jobs/calibrate_job.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/error.h"
#include "jobs/session.h"

namespace moetune {
namespace {

struct Target {
  std::string name;
  std::string problem;
  std::optional<double> Ceilings::*figure;

  bool is_rate() const { return figure != &Ceilings::launch_us; }
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

// Microseconds of the best configuration; nullopt if interrupted.
std::optional<double> best_time(Session& session, std::stop_token stop) {
  TuneSettings settings;
  settings.strategy = "local";  // streams differ little: descent with many open beats a model that waits
  settings.budget = kTrials;
  settings.fresh = true;
  const TuneResult result = session.tune(session.request(settings), std::move(stop));
  if (result.interrupted) return std::nullopt;
  if (!result.best)
    throw BrokenEnvironment("no configuration of decode_kernel works on " + session.info().key.name);
  return result.best->result.measurement.median_us;
}

// One figure; nullopt if interrupted.
std::optional<double> measure(const DeviceInfo& device, const Target& target, const CacheChoice& cache,
                              const JobContext& context) {
  const WorkloadSpec workload{.kernel = "decode_kernel", .problem = target.problem};
  Session session(choose_gpu(device.id, workload, "calibrate"), {.cache = cache}, context.events);
  const std::optional<double> time = best_time(session, context.stop);
  if (!time) return std::nullopt;
  const double value = target.is_rate() ? session.bytes() / *time * 1e-6 : *time;
  if (session.cache() != nullptr) {
    Ceilings reached;
    reached.*target.figure = value;
    store_ceilings(*session.cache(), session.info().key, reached);
  }
  return value;
}

}  // namespace

Ceilings measure_ceilings(const DeviceInfo& device, const CacheChoice& cache, const JobContext& context) {
  Ceilings reached;
  for (const Target& target : targets(device.key.memory_bytes)) {
    context.events.emit(PhaseChanged{Phase::calibrating});
    const std::optional<double> value = measure(device, target, cache, context);
    if (!value) break;
    reached.*target.figure = *value;
    const std::string unit = target.is_rate() ? "TB/s" : "us";
    context.events.emit(CeilingMeasured{device, target.name, unit, *value});
  }
  return reached;
}

CalibrateResult calibrate(const CalibrateRequest& request, const JobContext& context) {
  CalibrateResult result{.device = find_gpu(request.device, "calibrate")};
  result.ceilings = measure_ceilings(result.device, request.cache, context);
  result.interrupted = !result.ceilings.launch_us;  // the last of them
  context.events.emit(Finished{result.interrupted});
  return result;
}

}  // namespace moetune
