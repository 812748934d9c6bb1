#include "jobs/calibrate_job.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <iterator>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "jobs/session/session.h"
#include "tuner/quiet_watch.h"

namespace moetune {
namespace {

// The kernel and problem that are tuned for one figure.
struct Target {
  std::optional<double> Ceilings::*figure;
  const char* kernel;
  std::string problem;
  const char* strategy;
  std::size_t trials;
};

// Streams differ little: descent with many open beats a model that waits.
constexpr const char* kStreamStrategy = "local";
constexpr std::size_t kStreamTrials = 96, kMixTrials = 48;
// tensor_ceiling has some twenty configurations.
constexpr const char* kTensorStrategy = "exhaustive";
constexpr std::size_t kTensorTrials = 64;
constexpr double kSecondsEach = 30;  // no trial of a figure starts after that

// Tiles of an SM in one launch: some 10 ms of an H200, so that the finalists' rounds keep the tensor cores busy
// for half a second.
constexpr int kTilesPerSm = 384;
constexpr int kL2Passes = 64;

// A launch costs 1 or 2 µs whatever it moves: 8 GiB make that vanish, a sixteenth of a smaller memory nearly
// so. `bytes_an_element` counts what is read and written for one of x.
Target stream(std::optional<double> Ceilings::*figure, const std::string& write, std::int64_t bytes_an_element,
              std::int64_t memory_bytes, std::size_t trials) {
  const std::int64_t bytes = std::min<std::int64_t>(std::int64_t{8} << 30, memory_bytes / 16);
  const auto elements = std::bit_floor(static_cast<std::uint64_t>(bytes / bytes_an_element));
  return {figure, "decode_kernel", "elements=" + std::to_string(elements) + ",write=" + write, kStreamStrategy, trials};
}

// A quarter of L2, which holds some lines twice on GPUs whose L2 has two halves.
Target l2_stream(std::int64_t l2_bytes) {
  const auto elements = std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(l2_bytes / 4, 4096) / 4));
  return {&Ceilings::l2_tb_s, "decode_kernel",
          "elements=" + std::to_string(elements) + ",write=none,passes=" + std::to_string(kL2Passes), kStreamStrategy,
          kMixTrials};
}

Target products(std::optional<double> Ceilings::*figure, const std::string& dtype, int sm_count) {
  return {figure, "tensor_ceiling", "tiles=" + std::to_string(kTilesPerSm * sm_count) + ",dtype=" + dtype,
          kTensorStrategy, kTensorTrials};
}

// The figures, those that floors need most first.
std::vector<Target> targets(const DeviceInfo& device) {
  const std::int64_t memory = device.key.memory_bytes;
  std::vector<Target> all = {
      stream(&Ceilings::read_tb_s, "none", 4, memory, kStreamTrials),
      stream(&Ceilings::copy_tb_s, "all", 8, memory, kStreamTrials),
      {&Ceilings::launch_us, "decode_kernel", "elements=1,write=none", kStreamStrategy, kStreamTrials},
      stream(&Ceilings::mostly_read_tb_s, "eighth", 5, memory, kMixTrials),
      stream(&Ceilings::mostly_write_tb_s, "eightfold", 36, memory, kMixTrials),
      l2_stream(device.limits.l2_bytes)};
  // The tensor cores of sm_100 to sm_110 reach their rate by tcgen05 only, which tensor_ceiling does not use.
  const int capability = device.limits.compute_capability;
  if (capability >= 100 && capability < 120) return all;
  all.push_back(products(&Ceilings::bf16_tflop_s, "bf16", device.limits.sm_count));
  all.push_back(products(&Ceilings::fp16_tflop_s, "f16", device.limits.sm_count));
  if (capability >= 89) all.push_back(products(&Ceilings::e4m3_tflop_s, "e4m3", device.limits.sm_count));
  return all;
}

const CeilingFigure& figure_of(const Target& target) {
  return *std::find_if(std::begin(kCeilingFigures), std::end(kCeilingFigures),
                       [&](const CeilingFigure& figure) { return figure.value == target.figure; });
}

// Stops a figure as soon as the device is known not to get quiet: no trial after that could be a ceiling.
class ContentionStop {
 public:
  explicit ContentionStop(const JobContext& context)
      : context_(context), outer_(context.stop, [this] { stop_.request_stop(); }) {}
  ContentionStop(const ContentionStop&) = delete;

  Events events() {
    return {context_.events.job, [this](const Event& event) {
              if (std::holds_alternative<GpuContended>(event.what)) {
                contended_ = true;
                stop_.request_stop();
              }
              if (context_.events.listener) context_.events.listener(event);
            }};
  }
  std::stop_token token() const { return stop_.get_token(); }
  bool contended() const { return contended_; }

 private:
  const JobContext& context_;
  std::stop_source stop_;
  std::atomic<bool> contended_ = false;
  std::stop_callback<std::function<void()>> outer_;
};

// Microseconds of the best configuration; nullopt if interrupted.
std::optional<double> best_time(Session& session, const Target& target, std::uint64_t quiet_wait_s,
                                const ContentionStop& stop) {
  TuneSettings settings;
  settings.quiet_wait_s = quiet_wait_s;
  settings.strategy = target.strategy;
  settings.budget = target.trials;
  settings.time_budget_s = kSecondsEach;
  settings.fresh = true;
  TuneRequest request = session.request(settings);
  request.least_us = 0;  // ceilings of before, and what the driver says of clocks, judge no measured ceiling
  const TuneResult result = session.tune(request, stop.token());
  if (stop.contended() || (result.best && result.best->result.contended)) {
    throw BrokenEnvironment("somebody else is using " + session.info().key.name +
                            ": what it allows at best can be measured only while it is quiet");
  }
  if (result.interrupted) return std::nullopt;
  if (!result.best) {
    throw BrokenEnvironment("no configuration of " + session.kernel_name() + " works on " + session.info().key.name);
  }
  return result.best->result.measurement.median_us;
}

// In the figure's unit: of a launch its time, of all else bytes or FLOPs over time.
double value_of(const CeilingFigure& figure, const Cost& cost, double time_us) {
  if (figure.unit == Unit::us) return time_us;
  const double flops = cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3;
  return Work{figure.unit == Unit::tflop_s ? flops : cost.bytes(), figure.unit}.rate(time_us).value;
}

// One figure; nullopt if interrupted.
std::optional<double> measure_ceiling(const DeviceInfo& device, const Target& target, const CacheChoice& cache,
                                      std::uint64_t quiet_wait_s, const JobContext& context) {
  const WorkloadSpec workload{.kernel = target.kernel, .problem = target.problem};
  ContentionStop stop(context);
  Session session(choose_device(device.id, workload, {.gpu_job = "calibrate"}), {.cache = cache}, stop.events());
  const std::optional<double> time = best_time(session, target, quiet_wait_s, stop);
  if (!time) return std::nullopt;
  const double value = value_of(figure_of(target), session.cost(), *time);
  if (session.cache() != nullptr) {
    Ceilings reached;
    reached.*target.figure = value;
    store_ceilings(*session.cache(), session.info().key, reached);
  }
  return value;
}

void warn_unknown(const std::string& what, const std::string& why, const JobContext& context) {
  const std::string text = what + " stays unknown: " + why;
  context.events.emit(Warning{WarningKind::no_ceilings, text});
}

// Measures the machine around the GPU, on the device of the least launch's problem. False after a stop request.
bool measure_machine(const CalibrateRequest& request, const JobContext& context, CalibrateResult& result) {
  const WorkloadSpec workload{.kernel = "decode_kernel", .problem = "elements=1,write=none"};
  context.events.emit(PhaseChanged{Phase::calibrating});
  try {
    Session session(choose_device(result.device.id, workload, {.gpu_job = "calibrate"}),
                    {.cache = request.cache, .stop = context.stop}, {context.events.job, {}});
    Device& device = session.device();
    device.set_stop(context.stop);
    device.open(*session.kernel(), session.problem(), 1);
    QuietWatch watch(device, context.events, request.quiet_wait_s, context.stop);
    MachineFigures found;
    if (!watch.measure_quietly([&] { found = device.measure_machine(); }))
      throw BrokenEnvironment("somebody else is using " + result.device.key.name);
    Ceilings reached;
    for (const CeilingFigure& figure : kCeilingFigures) {
      if (const auto failure = found.failures.find(figure.name); failure != found.failures.end())
        warn_unknown(std::string("The figure '") + figure.title + "'", failure->second, context);
      const auto value = found.values.find(figure.name);
      if (value == found.values.end() || !figure.of_machine) continue;
      result.ceilings.*figure.value = reached.*figure.value = value->second;
      context.events.emit(CeilingMeasured{result.device, figure, value->second});
    }
    if (session.cache() != nullptr) store_ceilings(*session.cache(), session.info().key, reached);
  } catch (const Stopped&) {
    return false;
  } catch (const BrokenEnvironment& error) {
    warn_unknown("What copies and launches cost", error.what(), context);
  }
  return true;
}

}  // namespace

Ceilings measure_ceilings(const DeviceInfo& device, const CacheChoice& cache, const JobContext& context,
                          std::uint64_t quiet_wait_s, bool* complete) {
  Ceilings reached{.l2_bytes = device.limits.l2_bytes};
  if (complete != nullptr) *complete = false;
  for (const Target& target : targets(device)) {
    context.events.emit(PhaseChanged{Phase::calibrating});
    try {
      const std::optional<double> value = measure_ceiling(device, target, cache, quiet_wait_s, context);
      if (!value) return reached;
      reached.*target.figure = *value;
      context.events.emit(CeilingMeasured{device, figure_of(target), *value});
    } catch (const BrokenEnvironment& error) {
      if (!reached.read_tb_s) throw;  // nothing works here
      warn_unknown(std::string("The ceiling '") + figure_of(target).title + "'", error.what(), context);
    }
  }
  if (complete != nullptr) *complete = true;
  return reached;
}

CalibrateResult calibrate(const CalibrateRequest& request, const JobContext& context) {
  CalibrateResult result{.device = find_gpu(request.device, "calibrate")};
  bool complete = false;
  result.ceilings = measure_ceilings(result.device, request.cache, context, request.quiet_wait_s, &complete);
  result.interrupted = !complete || !measure_machine(request, context, result);
  context.events.emit(Finished{result.interrupted});
  return result;
}

}  // namespace moetune
