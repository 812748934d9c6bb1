#include "tuner/worker/cuda_device.h"

#include <cmath>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/environment.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random_text.h"
#include "kernels/buffer_json.h"
#include "launch/driver.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/worker_main.h"

namespace moetune {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

// Time for a worker beyond a candidate's own limit: loading, checking, answering.
constexpr milliseconds kGrace{2'000};
constexpr milliseconds kFetchLimit{60'000};
constexpr milliseconds kCanaryLimit{10'000};
constexpr milliseconds kMachineLimit{120'000};
constexpr double kDuelSeconds = 30;

std::string seconds_text(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

// Nobody who wrote a kernel can have known it. Of two contents that a fill may have it gives the one that `usual` does
// not.
std::uint64_t unforeseen_seed(std::uint64_t usual) {
  const std::uint64_t drawn = std::stoull(random_hex(sizeof(std::uint64_t)), nullptr, 16);
  return (drawn & ~std::uint64_t{1}) | (~usual & 1);
}

ChildProcess::Role worker_role(const std::string& executable = {}) {
  return {.verb = kWorkerVerb, .name = "the worker", .executable = executable};
}

// The reply's JSON; throws what the worker reports as its environment's or the request's fault.
Json worker_reply(const Message& reply) {
  Json json = parse_json(reply.header, "the worker's reply");
  if (!json.contains("error")) return json;
  const auto message = json.at("error").at("message").get<std::string>();
  const auto kind = json.at("error").at("kind").get<std::string>();
  if (kind == "no_gpu") throw cuda::NoGpu(message);
  if (kind == "memory") throw TooLittleMemory(message);
  if (kind == "environment") throw BrokenEnvironment(message);
  throw std::logic_error("the GPU worker refused a request: " + message);
}

// For requests that run no candidate: a worker that does not answer is a broken environment.
Json ask(ChildProcess& worker, const Message& request, milliseconds limit, const std::string& what,
         Bytes* blob = nullptr, std::stop_token stop = {}, std::function<void()> slow = {}) {
  ChildProcess::Reply reply = worker.request(request, limit, std::move(stop), std::move(slow));
  if (reply.status == ChildProcess::Reply::Status::stopped) throw Stopped();
  if (reply.status == ChildProcess::Reply::Status::late) {
    throw BrokenEnvironment(what + " took longer than " + std::to_string(limit.count() / 1000) +
                            " s, and the GPU worker was killed; see whether nvidia-smi answers");
  }
  if (reply.status == ChildProcess::Reply::Status::died) {
    throw BrokenEnvironment(what + " failed: " + reply.cause + "; see whether nvidia-smi answers");
  }
  Json json = worker_reply(reply.message);
  if (blob != nullptr && !reply.message.blobs.empty()) *blob = std::move(reply.message.blobs.front());
  return json;
}

// The GPUs that the worker may see; "" for those that this process sees. A restriction in the environment holds.
std::string visible_devices(const std::string& slice) {
  return environment_variable("CUDA_VISIBLE_DEVICES") != nullptr ? "" : slice;
}

constexpr const char* kStarting = "starting the CUDA driver";

std::vector<DeviceInfo> hello(ChildProcess& worker, const std::string& slice, milliseconds limit,
                              std::function<void()> slow = {}) {
  const Json request = {{"op", "hello"}, {"visible", visible_devices(slice)}};
  try {
    auto devices = ask(worker, {request.dump(), {}}, limit, kStarting, nullptr, {}, std::move(slow))
                       .at("devices")
                       .get<std::vector<DeviceInfo>>();
    if (devices.empty()) throw cuda::NoGpu("the CUDA driver finds no GPU");
    return devices;
  } catch (const cuda::NoGpu& error) {
    if (slice.empty()) throw;
    throw BrokenEnvironment("there is no " + slice + ": " + error.what() + "; nvidia-smi -L lists the slices");
  }
}

}  // namespace

// All that makes a problem's tensors again in a fresh worker.
struct CudaDevice::Programs {
  const Kernel* kernel;
  Problem problem;
  Call call;
  Plan exact, baseline;
  std::vector<BuildPtr> builds;  // harness, exact, baseline
};

namespace {

CudaDeviceList list_from(ChildProcess& worker, const std::string& slice) {
  CudaDeviceList list;
  try {
    list.devices = hello(worker, slice, WorkerWaits{}.start_limit);
  } catch (const cuda::NoGpu& error) {
    list.why_empty = error.what();
  } catch (const BrokenEnvironment& error) {
    list.why_empty = error.what();
    list.broken = true;
  }
  return list;
}

}  // namespace

CudaDeviceList list_cuda_devices(const std::string& slice) {
  ChildProcess worker(worker_role());
  return list_from(worker, slice);
}

CudaTopology read_cuda_topology() {
  ChildProcess worker(worker_role());
  CudaTopology found{.list = list_from(worker, "")};
  if (found.list.devices.empty()) return found;
  const Message request{R"({"op":"topology"})", {}};
  found.topology = ask(worker, request, WorkerWaits{}.start_limit, "reading the topology").get<Topology>();
  return found;
}

CudaDevice::CudaDevice(Options options) : options_(std::move(options)) {
  if (!options_.build) throw std::logic_error("CudaDevice: Options::build is empty");
  const milliseconds limit = options_.waits.start_limit;
  const std::vector<DeviceInfo> devices = hello(worker(), options_.slice, limit, notice(kStarting, limit));
  if (options_.pick) options_.ordinal = static_cast<int>(options_.pick(devices));
  if (options_.ordinal < 0 || static_cast<std::size_t>(options_.ordinal) >= devices.size()) {
    throw BrokenEnvironment("there is no cuda:" + std::to_string(options_.ordinal) + "; the driver finds " +
                            std::to_string(devices.size()) + " GPU(s)");
  }
  info_ = devices[static_cast<std::size_t>(options_.ordinal)];
}

ChildProcess& CudaDevice::worker() {
  if (worker_ && !worker_->alive()) forget_worker();  // killed while idle: no candidate's fault
  if (!worker_) {
    worker_ = std::make_unique<ChildProcess>(worker_role(options_.worker_executable));
    ++starts_;
  }
  return *worker_;
}

void CudaDevice::forget_worker() {
  worker_.reset();
  opened_.reset();
}

std::function<void()> CudaDevice::notice(const std::string& what, milliseconds limit) const {
  if (!options_.waits.slow) return {};
  return [slow = options_.waits.slow, what, limit] {
    slow("The GPU worker has not answered for " + std::to_string(ChildProcess::kSlow.count()) + " s (" + what +
         "); it is given " + seconds_text(1e-3 * static_cast<double>(limit.count())) +
         ". See whether nvidia-smi answers.");
  };
}

ChildProcess::Reply CudaDevice::request(const Message& message, milliseconds limit, const std::string& what) {
  ChildProcess::Reply reply = worker_->request(message, limit, stop_, notice(what, limit));
  if (reply.status != ChildProcess::Reply::Status::stopped) return reply;
  forget_worker();
  throw Stopped();
}

void CudaDevice::open(const Kernel& kernel, const Problem& problem, std::uint64_t seed) {
  open(kernel, problem, kernel.default_call(problem), seed);
}

void CudaDevice::open(const Kernel& kernel, const Problem& problem, const Call& call, std::uint64_t seed) {
  kernel.check_call(problem, call);
  auto programs = std::make_shared<Programs>();
  programs->kernel = &kernel;
  programs->problem = problem;
  programs->call = call;
  programs->exact = kernel.reference(Reference::exact, problem, call, info_.limits);
  programs->baseline = kernel.reference(Reference::baseline, problem, call, info_.limits);
  programs->builds = options_.build({{Harness::kSource, {}}, programs->exact.unit, programs->baseline.unit});
  for (const BuildPtr& build : programs->builds) {
    if (build == nullptr) throw Stopped();
    if (build->outcome == Outcome::ok) continue;
    throw BrokenEnvironment("a reference of kernel '" + kernel.name() + "' does not compile: " + build->message);
  }
  programs_ = std::move(programs);
  wanted_ = {seed, 0};
  opened_.reset();
  ensure_open(wanted_);
}

void CudaDevice::ensure_open(const Opened& wanted) {
  if (!programs_) throw std::logic_error("CudaDevice: no problem is open");
  ChildProcess& process = worker();
  if (opened_ == wanted) return;
  opened_.reset();
  Message request;
  for (const BuildPtr& build : programs_->builds) request.blobs.push_back(build->cubin);
  std::vector<Bytes> lists;
  const std::vector<Buffer> buffers = programs_->kernel->buffers(programs_->problem, programs_->call, wanted.seed);
  request.header = Json{{"op", "open"},
                        {"device", options_.ordinal},
                        {"visible", visible_devices(options_.slice)},
                        {"seed", wanted.seed},
                        {"other_seed", unforeseen_seed(wanted.seed)},
                        {"copies", wanted.copies},
                        {"buffers", write_buffers(buffers, lists)},
                        {"exact", programs_->exact},
                        {"baseline", programs_->baseline}}
                       .dump();
  std::move(lists.begin(), lists.end(), std::back_inserter(request.blobs));
  const std::string what = "preparing the inputs of " + programs_->kernel->name();
  try {
    ask(process, request, options_.open_limit, what, nullptr, stop_, notice(what, options_.open_limit));
  } catch (...) {
    forget_worker();
    throw;
  }
  opened_ = wanted;
  answered_others_ = false;
}

void CudaDevice::ensure_answers() {
  if (answered_others_) return;
  const std::string what = "preparing other inputs of " + programs_->kernel->name();
  try {
    ask(*worker_, {R"({"op":"answer_others"})", {}}, options_.open_limit, what, nullptr, stop_,
        notice(what, options_.open_limit));
  } catch (...) {
    forget_worker();
    throw;
  }
  answered_others_ = true;
}

TrialResult CudaDevice::trial(const Candidate& candidate, const MeasurePolicy& policy, const Opened& on, bool measure) {
  if (!candidate.build || candidate.build->outcome != Outcome::ok) {
    return {.outcome = Outcome::compile_failed,
            .message = candidate.build ? candidate.build->message : "was not compiled"};
  }
  ensure_open(on);
  if (measure && policy.prove_below_us > 0) ensure_answers();
  const Message request{Json{{"op", "run"}, {"plan", candidate.plan}, {"policy", policy}, {"measure", measure}}.dump(),
                        {candidate.build->cubin}};
  const auto limit = milliseconds(std::llround(1e3 * policy.time_limit_s)) + kGrace;
  const ChildProcess::Reply reply = this->request(request, limit, "a candidate");
  if (reply.status == ChildProcess::Reply::Status::late) {
    forget_worker();
    return {.outcome = Outcome::timed_out,
            .message = "ran past its time limit of " + seconds_text(policy.time_limit_s) + "; its worker was killed"};
  }
  if (reply.status == ChildProcess::Reply::Status::died) {
    forget_worker();
    return {.outcome = Outcome::crashed, .message = reply.cause};
  }
  auto answer = worker_reply(reply.message).get<RunReply>();
  if (answer.context_lost) forget_worker();
  if (answer.suspect) require_sound(answer.result.message);
  if (answer.damaged) opened_.reset();
  return std::move(answer.result);
}

TrialResult CudaDevice::run(const Candidate& candidate, const MeasurePolicy& policy) {
  return trial(candidate, policy, wanted_, true);
}

TrialResult CudaDevice::verify(const Candidate& candidate, std::uint64_t seed, double time_limit_s) {
  return trial(candidate, {.time_limit_s = time_limit_s}, {seed, 1}, false);
}

struct CudaDevice::DuelAttempt {
  std::vector<Measurement> measurements;                   // by `standing`; empty where it did not come to an end
  std::vector<std::pair<std::size_t, std::string>> wrong;  // positions in `standing`, and why
  std::optional<std::size_t> culprit;                      // position in `standing`, where the worker could say
  Outcome outcome = Outcome::launch_failed;                // of the culprit
  std::string message;
};

CudaDevice::DuelAttempt CudaDevice::attempt_duel(const std::vector<Candidate>& finalists,
                                                 const std::vector<std::size_t>& standing, const DuelPolicy& policy) {
  ensure_open(wanted_);
  if (policy.proves) ensure_answers();
  Json plans = Json::array();
  Message request;
  for (const std::size_t i : standing) {
    plans.push_back(finalists[i].plan);
    request.blobs.push_back(finalists[i].build->cubin);
  }
  request.header = Json{{"op", "duel"}, {"plans", plans}, {"policy", policy}, {"time_limit_s", kDuelSeconds}}.dump();
  const auto limit = milliseconds(std::llround(2e3 * kDuelSeconds)) + kGrace;
  const ChildProcess::Reply reply = this->request(request, limit, "the duel of the finalists");
  DuelAttempt attempt;
  if (reply.status != ChildProcess::Reply::Status::answered) {
    forget_worker();
    return attempt;
  }
  const Json json = worker_reply(reply.message);
  if (json.contains("measurements")) {
    json.at("measurements").get_to(attempt.measurements);
    for (const Json& one : json.at("wrong"))
      attempt.wrong.emplace_back(one.at("position").get<std::size_t>(), one.at("message").get<std::string>());
    if (json.at("damaged").get<bool>()) opened_.reset();
    return attempt;
  }
  if (json.contains("failed")) attempt.culprit = json.at("failed").get<std::size_t>();
  attempt.outcome = outcome_from_name(json.at("outcome").get<std::string>()).value_or(Outcome::launch_failed);
  attempt.message = json.at("message");
  if (json.at("context_lost").get<bool>()) forget_worker();
  if (json.at("suspect").get<bool>()) require_sound(attempt.message);
  return attempt;
}

std::vector<TrialResult> CudaDevice::duel(const std::vector<Candidate>& finalists, const DuelPolicy& policy) {
  std::vector<TrialResult> results(finalists.size());
  std::vector<std::size_t> standing;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const BuildPtr& build = finalists[i].build;
    if (build && build->outcome == Outcome::ok) {
      standing.push_back(i);
    } else {
      results[i] = {.outcome = Outcome::compile_failed, .message = build ? build->message : "was not compiled"};
    }
  }
  while (!standing.empty()) {
    const DuelAttempt attempt = attempt_duel(finalists, standing, policy);
    if (!attempt.measurements.empty()) {
      for (std::size_t i = 0; i < standing.size(); ++i) results[standing[i]].measurement = attempt.measurements[i];
      for (const auto& [i, reason] : attempt.wrong) {
        results[standing.at(i)].outcome = Outcome::wrong_result;
        results[standing.at(i)].message = reason;
      }
      return results;
    }
    // One of them broke the worker. Where it could not say which, each is run alone; the duel goes on without
    // who fails.
    const std::size_t before = standing.size();
    if (attempt.culprit) {
      const std::size_t loser = standing[*attempt.culprit];
      results[loser] = {.outcome = attempt.outcome, .message = attempt.message};
      std::erase(standing, loser);
    } else {
      std::vector<TrialResult> alone;
      for (const std::size_t i : standing) alone.push_back(run(finalists[i], {.timing = policy.timing}));
      std::vector<std::size_t> sound;
      for (std::size_t i = 0; i < standing.size(); ++i) {
        results[standing[i]] = alone[i];
        if (alone[i].outcome == Outcome::ok) sound.push_back(standing[i]);
      }
      standing = std::move(sound);
    }
    // All are sound alone and still the duel does not end: their own measurements are what there is.
    if (standing.size() == before) return results;
  }
  return results;
}

std::optional<CanaryReading> CudaDevice::canary() {
  // A worker that died, or a canary that failed, may be due to earlier runs; in a new worker there are none.
  std::string failure;
  for (int attempt = 0; attempt < 2; ++attempt) {
    ensure_open(opened_.value_or(wanted_));
    const ChildProcess::Reply reply = request({R"({"op":"canary"})", {}}, kCanaryLimit, "the canary");
    failure.clear();
    if (reply.status == ChildProcess::Reply::Status::answered) {
      const auto answer = worker_reply(reply.message).get<CanaryReply>();
      if (answer.failure.empty()) return answer.reading;
      failure = answer.failure;
    }
    forget_worker();
    if (reply.status == ChildProcess::Reply::Status::late) break;
  }
  if (failure.empty()) return std::nullopt;
  throw BrokenEnvironment("the GPU itself fails: a known-good kernel ends in a new process with " + failure +
                          "; see nvidia-smi and dmesg");
}

// After an error that a candidate may have caused, or the device: that one fails with any kernel.
void CudaDevice::require_sound(const std::string& error) {
  forget_worker();
  try {
    if (canary()) return;
  } catch (const BrokenEnvironment& failure) {
    throw BrokenEnvironment(error + "; " + failure.what());
  }
  throw BrokenEnvironment(error +
                          "; the GPU itself fails: a known-good kernel does not end in a new process; "
                          "see nvidia-smi and dmesg");
}

MachineFigures CudaDevice::measure_machine() {
  ensure_open(opened_.value_or(wanted_));
  const std::string what = "measuring copies and launches";
  const Json reply =
      ask(*worker_, {R"({"op":"machine"})", {}}, kMachineLimit, what, nullptr, stop_, notice(what, kMachineLimit));
  MachineFigures found;
  reply.at("values").get_to(found.values);
  reply.at("failures").get_to(found.failures);
  return found;
}

Bytes CudaDevice::fetch(const std::string& name, Tensor which, int copy) {
  ensure_open(opened_.value_or(wanted_));
  Bytes bytes;
  const Json request = {{"op", "fetch"}, {"name", name}, {"copy", copy}, {"exact", which == Tensor::exact}};
  ask(*worker_, {request.dump(), {}}, kFetchLimit, "reading tensor '" + name + "' back", &bytes);
  return bytes;
}

}  // namespace moetune
