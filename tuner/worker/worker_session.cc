#include "tuner/worker/worker_session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/profiler_range.h"
#include "kernels/buffer_json.h"
#include "tuner/worker/benchmark.h"
#include "tuner/worker/links.h"
#include "tuner/worker/nvml.h"
#include "tuner/worker/proof.h"
#include "tuner/worker/tensors.h"
#include "tuner/worker/topology.h"
#include "tuner/worker/worker_messages.h"

namespace moetune {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

Message reply_of(const Json& json) {
  // Names of devices and messages of drivers may hold any bytes.
  return {json.dump(-1, ' ', false, Json::error_handler_t::replace), {}};
}

Message error_reply(const char* kind, const std::string& message) {
  return reply_of({{"error", {{"kind", kind}, {"message", message}}}});
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Deadline deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The blobs of an open request begin with the cubins of harness, exact reference and baseline.
constexpr std::size_t kPrograms = 3;

const Bytes& blob(const Message& request, std::size_t index) {
  if (index >= request.blobs.size()) throw BadInput("the request lacks blob " + std::to_string(index));
  return request.blobs[index];
}

// At least one time slice, which is some 2 ms; no window of the canary is as long as the gap, at any clock.
constexpr std::uint64_t kCanaryNs = 5'000'000, kCanaryGapNs = 100'000;

// The outcome of a candidate. Rethrows an error that is the device's, whatever ran.
Outcome outcome_of(const cuda::CudaError& error) {
  if (error.kind == cuda::CudaError::Kind::device) throw error;
  return error.kind == cuda::CudaError::Kind::memory ? Outcome::out_of_memory : Outcome::launch_failed;
}

}  // namespace

struct WorkerSession::Gpu {
  explicit Gpu(int ordinal_)
      : ordinal(ordinal_),
        info(cuda::describe_device(ordinal_)),
        context(ordinal_),
        stream(cuda::make_stream()),
        nvml(info.pci_bus_id, info.uuid) {}

  int ordinal;
  DeviceInfo info;
  cuda::Context context;
  cuda::Stream stream;
  Nvml nvml;
  bool follows_clock = true;  // the times of the latest duel; not known before the first
};

struct WorkerSession::OpenProblem {
  OpenProblem(Gpu& gpu, TensorsSpec spec, const Bytes& harness_cubin, const CompiledReference& exact,
              const CompiledReference& baseline)
      : harness(harness_cubin, gpu.info.limits, gpu.stream),
        tensors(std::move(spec), exact, baseline, gpu.info.limits, gpu.context.free_memory(), harness, gpu.stream),
        producer(harness, tensors.fresh_parts(), gpu.stream),
        benchmark(harness, producer, gpu.nvml, 1e-3 * gpu.info.key.sm_clock_khz, gpu.follows_clock, gpu.stream) {}

  Harness harness;
  Tensors tensors;
  Producer producer;
  Benchmark benchmark;
};

WorkerSession::WorkerSession() = default;
WorkerSession::~WorkerSession() = default;

Message WorkerSession::handle(const Message& request) {
  try {
    return dispatch(request);
  } catch (const cuda::NoGpu& error) {
    return error_reply("no_gpu", error.what());
  } catch (const TooLittleMemory& error) {
    return error_reply("memory", error.what());
  } catch (const BrokenEnvironment& error) {
    return error_reply("environment", error.what());
  } catch (const cuda::CudaError& error) {
    const bool is_device = error.kind == cuda::CudaError::Kind::device;
    return error_reply("environment", std::string(error.what()) +
                                          (is_device ? ": the GPU itself fails; see nvidia-smi and dmesg" : ""));
  } catch (const std::exception& error) {
    return error_reply("request", error.what());
  }
}

Message WorkerSession::dispatch(const Message& request) {
  const Json json = parse_json(request.header, "a request");
  const auto op = json.at("op").get<std::string>();
  const ProfilerRange range(op.c_str());
  if (op == "hello") return hello(json.value("visible", ""));
  if (op == "open") return open(request);
  if (op == "answer_others") return answer_others();
  if (op == "run") return run(request);
  if (op == "duel") return duel(request);
  if (op == "canary") return canary();
  if (op == "machine") return measure_machine();
  if (op == "topology") return reply_of(read_topology());
  if (op == "fetch") return fetch(request);
  throw BadInput("the worker knows no request '" + op + "'");
}

void WorkerSession::start_driver(const std::string& visible) {
  if (driver_started_) return;
  if (!visible.empty()) setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
  cuda::initialize();
  driver_started_ = true;
}

Message WorkerSession::hello(const std::string& visible) {
  start_driver(visible);
  Json devices = Json::array();
  for (int i = 0; i < cuda::device_count(); ++i) {
    DeviceInfo info = cuda::describe_device(i);
    const Nvml nvml(info.pci_bus_id, info.uuid);
    // As nvidia-smi prints it. Without NVML the driver's name of a slice tells: "NVIDIA H200 MIG 1g.18gb".
    if (nvml.is_slice() || info.key.name.find(" MIG ") != std::string::npos) info.uuid.replace(0, 3, "MIG");
    if (!visible.empty()) info.id = info.uuid;
    const std::string version = nvml.driver_version();
    if (!version.empty()) info.key.driver = version;
    info.load = nvml.load();
    info.settings = nvml.settings();
    devices.push_back(info);
  }
  return reply_of({{"devices", devices}});
}

Message WorkerSession::open(const Message& request) {
  const Json json = parse_json(request.header, "a request");
  TensorsSpec spec;
  const auto shared = std::span(request.blobs);
  spec.buffers = read_buffers(json.at("buffers"), shared.subspan(std::min(kPrograms, shared.size())));
  json.at("seed").get_to(spec.seed);
  json.at("other_seed").get_to(spec.other_seed);
  json.at("copies").get_to(spec.copies);
  const CompiledReference exact{json.at("exact").get<Plan>(), blob(request, 1)};
  const CompiledReference baseline{json.at("baseline").get<Plan>(), blob(request, 2)};

  problem_.reset();  // its memory is needed
  start_driver(json.value("visible", ""));
  const int ordinal = json.at("device");
  if (gpu_ == nullptr || gpu_->ordinal != ordinal) {
    gpu_.reset();
    gpu_ = std::make_unique<Gpu>(ordinal);
  }
  try {
    problem_ = std::make_unique<OpenProblem>(*gpu_, std::move(spec), blob(request, 0), exact, baseline);
  } catch (const cuda::CudaError& error) {
    if (error.kind != cuda::CudaError::Kind::image) throw;
    throw BrokenEnvironment("this driver (" + gpu_->info.key.driver + ") cannot load what the compiler made: " +
                            error.what() + "; update the driver, or use an NVRTC no newer than it");
  }
  return reply_of({{"copies", problem_->tensors.copies()}});
}

// The reference may take longer than a candidate is given, so proofs find its answers made.
Message WorkerSession::answer_others() {
  opened().tensors.use(InputSet::other);
  opened().tensors.use(InputSet::usual);
  return reply_of(Json::object());
}

WorkerSession::OpenProblem& WorkerSession::opened() {
  if (problem_ == nullptr) throw BadInput("no problem is open in the worker");
  return *problem_;
}

// One candidate on its way through validating and measuring.
struct WorkerSession::Run {
  OpenProblem& problem;
  MeasurePolicy policy;
  Deadline deadline;
  std::optional<LoadedPlan> plan;
  double run_us = 0;  // of the first run that was validated
  RunReply reply;
};

// True if the candidate may go on.
bool WorkerSession::validate(Run& run, bool after_previous_run) {
  const ProfilerRange range("validate");
  const auto begin = Clock::now();
  const Validation validation = run.problem.tensors.validate(*run.plan, after_previous_run);
  TrialResult& result = run.reply.result;
  result.validate_s += seconds_since(begin);
  result.max_error = std::max(result.max_error, validation.max_error);
  result.error_share = std::max(result.error_share, validation.error_share);
  result.dissimilarity = std::max(result.dissimilarity, validation.dissimilarity);
  run.reply.damaged = validation.damaged;
  if (!after_previous_run) run.run_us = validation.run_us;
  if (validation.right) return true;
  result.outcome = Outcome::wrong_result;
  result.message = validation.reason + (after_previous_run ? " (after repeated runs)" : "");
  return false;
}

void WorkerSession::measure(Run& run) {
  const ProfilerRange range("measure");
  const auto begin = Clock::now();
  run.problem.tensors.poison_outputs();
  Benchmark::Timed timing =
      run.problem.benchmark.measure(*run.plan, run.problem.tensors.turns(), run.run_us, run.policy, run.deadline);
  TrialResult& result = run.reply.result;
  result.outcome = timing.outcome;
  result.message = std::move(timing.message);
  result.measurement = std::move(timing.measurement);
  result.measure_s = seconds_since(begin);
}

// Whether what the timed launches wrote is right, and, of one that would lead, whether it stands the proof.
bool WorkerSession::judge_measured(Run& run) {
  TrialResult& result = run.reply.result;
  const auto begin = Clock::now();
  Tensors& tensors = run.problem.tensors;
  Validation validation{.right = true};
  if (!tensors.accumulates()) validation = tensors.judge_written();
  if (!validation.right) validation.reason += " (as the timed launches left it)";
  if (validation.right && result.measurement.median_us < run.policy.prove_below_us) {
    validation = prove(*run.plan, tensors, run.problem.benchmark, run.policy.timing, result.measurement);
  }
  result.validate_s += seconds_since(begin);
  run.reply.damaged = validation.damaged;
  if (validation.right) return true;
  result.outcome = Outcome::wrong_result;
  result.message = validation.reason;
  return false;
}

Message WorkerSession::run(const Message& request) {
  const Json json = parse_json(request.header, "a request");
  const auto policy = json.at("policy").get<MeasurePolicy>();
  Run run{.problem = opened(), .policy = policy, .deadline = deadline_in(policy.time_limit_s)};
  const bool measured = json.at("measure");
  TrialResult& result = run.reply.result;
  try {
    const auto loading = Clock::now();
    run.plan.emplace(run.problem.tensors.load(json.at("plan").get<Plan>(), blob(request, 0)));
    result.validate_s = seconds_since(loading);
    run.problem.tensors.use(InputSet::usual);
    const bool right = validate(run, false);
    if (right && measured) {
      measure(run);
      if (result.outcome == Outcome::ok) judge_measured(run);
    }
    // Once more, now that it has run many times: state that it leaves in its scratch must not break the next
    // run.
    if (right && result.outcome == Outcome::ok) validate(run, true);
  } catch (const cuda::CudaError& error) {
    result.outcome = outcome_of(error);
    result.message = error.what();
    run.reply.suspect = error.kind == cuda::CudaError::Kind::suspect;
    run.reply.context_lost = !gpu_->context.alive();
  }
  return reply_of(run.reply);
}

Message WorkerSession::duel(const Message& request) {
  OpenProblem& problem = opened();
  const Json json = parse_json(request.header, "a request");
  const Deadline deadline = deadline_in(json.at("time_limit_s"));
  const auto policy = json.at("policy").get<DuelPolicy>();
  std::vector<std::unique_ptr<LoadedPlan>> plans;
  std::vector<LoadedPlan*> borrowed;
  std::optional<std::size_t> failed;
  Tensors& tensors = problem.tensors;
  try {
    tensors.use(InputSet::usual);
    for (const Json& plan : json.at("plans")) {
      failed = plans.size();
      plans.push_back(std::make_unique<LoadedPlan>(tensors.load(plan.get<Plan>(), blob(request, plans.size()))));
      borrowed.push_back(plans.back().get());
    }
    std::vector<Validation> validations(plans.size(), {.right = true});
    const Benchmark::LastSample last = {.before = [&] { tensors.poison_outputs(); },
                                        .after =
                                            [&](std::size_t i) {
                                              if (!tensors.accumulates()) validations[i] = tensors.judge_written();
                                            }};
    const std::vector<Measurement> measurements =
        problem.benchmark.duel(borrowed, tensors.turns(), policy, deadline, failed, last);
    Json wrong = Json::array();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      failed = i;
      if (policy.proves && validations[i].right)
        validations[i] = prove(*plans[i], tensors, problem.benchmark, policy.timing, measurements[i]);
      if (!validations[i].right)
        wrong.push_back({{"position", i}, {"message", validations[i].reason + " (in the duel)"}});
    }
    const bool damaged = std::ranges::any_of(validations, &Validation::damaged);
    return reply_of({{"measurements", measurements}, {"wrong", wrong}, {"damaged", damaged}});
  } catch (const cuda::CudaError& error) {
    Json reply = {{"outcome", outcome_name(outcome_of(error))},
                  {"message", error.what()},
                  {"suspect", error.kind == cuda::CudaError::Kind::suspect},
                  {"context_lost", !gpu_->context.alive()}};
    if (failed) reply["failed"] = *failed;
    return reply_of(reply);
  }
}

Message WorkerSession::canary() {
  CanaryReply reply;
  try {
    reply.reading = merge_canary(opened().harness.canary(kCanaryNs, kCanaryGapNs));
    reply.reading.other_processes = gpu_->nvml.other_processes();
    reply.reading.throttled = gpu_->nvml.read().throttled;
  } catch (const cuda::CudaError& error) {
    if (error.kind == cuda::CudaError::Kind::device) throw;
    reply.failure = error.what();
  }
  return reply_of(reply);
}

Message WorkerSession::measure_machine() {
  OpenProblem& problem = opened();
  const MachineFigures found = moetune::measure_machine(gpu_->context, gpu_->info, problem.harness, gpu_->stream);
  return reply_of({{"values", found.values}, {"failures", found.failures}});
}

Message WorkerSession::fetch(const Message& request) {
  const Json json = parse_json(request.header, "a request");
  Message reply = reply_of(Json::object());
  reply.blobs.push_back(opened().tensors.fetch(json.at("name"), json.at("copy"), json.at("exact")));
  return reply;
}

}  // namespace moetune
