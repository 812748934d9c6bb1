// Threads of a server on one stream with one workspace: every output of every call is, bit for bit, what the call makes
// alone. No operator promises less.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "include/moetune.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "kernels/registry.h"
#include "tests/gpu/device_tensors.h"
#include "tests/gpu/gpu.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/worker/harness.h"

#define REQUIRE_DONE(call) REQUIRE_MESSAGE((call) == MOETUNE_OK, std::string(moetune_last_error()))

namespace moetune::shared_workspace_gpu_test {
namespace {

constexpr int kThreads = 8, kCalls = 2000;  // of each thread
constexpr int kSlots = 8;                   // calls of a thread whose outputs are apart, and looked at together
constexpr int kInputs = 2;                  // that a slot meets in turn: what was left there is wrong

// A configuration that a server launches.
struct Operator {
  std::string name;
  const char* kernel;
  const char* problem;
  bool in_two_launches;
  std::function<bool(const Config&)> wanted;
};

constexpr const char* kAttention = "batch=3,q_heads=16,kv_heads=2,context=1000,page=16,lengths=ragged";
constexpr const char* kPrompts = "batch=2,q_heads=8,kv_heads=2,seqlen_q=40,seqlen_kv=1000,page=16";
constexpr const char* kManyPrompts = "batch=5,q_heads=32,kv_heads=8,seqlen_q=40,seqlen_kv=200,page=16";
constexpr const char* kRouting = "tokens=300,experts=64,top_k=6,dtype=bf16";
constexpr const char* kGiven = "tokens=300,experts=64,top_k=6,map=local";
constexpr const char* kRows = "tokens=64,hidden=512,top_k=2,experts=16";
constexpr const char* kExperts = "tokens=64,hidden=512,intermediate=256,top_k=2,experts=16";

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = {
      {"attention that a second kernel combines", "decode_attention", kAttention, true,
       [](const Config& config) {
         return config.is("body", "mma") && config.is("combine", "kernel") && config.number("splits") == 8;
       }},
      {"the same, which asks ahead", "decode_attention", kAttention, true,
       [](const Config& config) {
         return config.is("body", "tma") && config.is("combine", "kernel") && config.number("splits") == 4 &&
                config.number("ahead") > 0;
       }},
      {"persistent attention that a second kernel combines", "decode_attention", kAttention, true,
       [](const Config& config) { return config.is("schedule", "persistent") && config.is("combine", "kernel"); }},
      {"split prefill", "prefill_attention", kPrompts, true,
       [](const Config& config) { return config.number("splits") >= 4; }},
      {"routing whose places a second kernel writes", "router", kRouting, true,
       [](const Config& config) { return config.is("schedule", "split"); }},
      {"given experts whose places a second kernel writes", "route_plan", kGiven, true,
       [](const Config& config) { return config.is("schedule", "split"); }},
      {"attention that its last block combines", "decode_attention", kAttention, false,
       [](const Config& config) {
         return config.is("schedule", "grid") && config.is("combine", "last_cta") && config.number("splits") == 8;
       }},
      {"attention that its clusters combine", "decode_attention", kAttention, false,
       [](const Config& config) {
         return config.is("body", "tma") && config.is("combine", "cluster") && config.number("splits") == 4;
       }},
      {"prefill that hands out its tiles", "prefill_attention", kManyPrompts, false,
       [](const Config& config) { return config.is("schedule", "dynamic") && config.number("splits") == 1; }},
      {"routing whose blocks wait for each other", "router", kRouting, false,
       [](const Config& config) { return config.is("schedule", "barrier") && config.number("warps") == 8; }},
      {"given experts that every block counts", "route_plan", kGiven, false,
       [](const Config& config) { return config.is("schedule", "apart") && config.number("blocks") == 8; }},
      {"moe_dispatch", "moe_dispatch", kRows, false, [](const Config&) { return true; }},
      {"moe_combine", "moe_combine", kRows, false, [](const Config&) { return true; }},
      {"experts whose products are launches of their own", "moe_experts", kExperts, false,
       [](const Config& config) { return config.number("launches") == 3; }},
      {"experts whose products are one launch", "moe_experts", kExperts, true,
       [](const Config& config) { return config.number("launches") == 2; }},
  };
  return all;
}

Problem problem_of(const Operator& of) {
  const Kernel& kernel = find_kernel(of.kernel);
  return kernel.parse(of.problem);
}

std::optional<Config> find_config(const Operator& of, const DeviceLimits& limits) {
  const LegalSpace legal = shared_space(of.kernel).enumerate(expression_environment(problem_of(of), limits));
  for (ConfigId i = 0; i < legal.size(); ++i) {
    if (of.wanted(legal.config(i))) return legal.config(i);
  }
  return std::nullopt;
}

// A cache whose winner of the problem is this configuration.
void store(const std::filesystem::path& file, const Operator& of, const Config& config) {
  const Kernel& kernel = find_kernel(of.kernel);
  const Problem problem = problem_of(of);
  const Plan plan = kernel.plan(config, problem, kernel.default_call(problem), gpu().info().limits);
  WinnerRecord record;
  record.config = config.text();
  record.plan = nlohmann::json(plan).dump();
  record.interface = interface_digest(plan.unit, plan);
  record.cubin = compile_for_gpu(plan.unit)->cubin;
  record.time_us = record.interval_low_us = record.interval_high_us = 1000;
  record.provenance = "{}";
  Cache cache = Cache::open(file, Cache::Mode::create);
  const WorkloadKey key{kernel.name(), problem.text(), gpu().info().key, "sources", "toolchain"};
  cache.winners.put(cache.workloads.id(key, kernel.specialization(problem).text()), record);
}

// Sums of outputs, of which any change shows.
class Checksums {
 public:
  Checksums() : module_(cuda::load_module(compile_for_gpu({Harness::kSource, {}})->cubin)) {
    function_ = cuda::find_function(module_, "moetune_checksum");
  }

  // Adds that of `bytes`, a multiple of 16, to the sum at `to`.
  void add(cuda::Address from, std::int64_t bytes, cuda::Address to, cuda::StreamRef stream) const {
    LaunchShape shape;
    shape.entry = "moetune_checksum";
    shape.grid[0] = 8;
    shape.block[0] = 256;
    std::uint64_t words = static_cast<std::uint64_t>(bytes) / 16;
    std::array<void*, 3> parameters = {&from, &words, &to};
    cuda::launch(function_, shape, parameters.data(), stream);
  }

 private:
  cuda::Module module_;
  cuda::Function function_;
};

// An operator as one runtime serves it, with the sums of its outputs for each of its inputs.
class Served {
 public:
  Served(const Operator& of, const Config& config, const cuda::Stream& stream) : of_(of) {
    const Kernel& kernel = find_kernel(of.kernel);
    const Problem problem = problem_of(of);
    const TemporaryFile file;
    store(file.path, of, config);
    const std::string path = file.path.string();
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    REQUIRE_DONE(moetune_open(&options, &runtime_));
    REQUIRE_DONE(moetune_family_open(runtime_, of.kernel, kernel.specialization(problem).text().c_str(), &family_));
    const Extents extents = kernel.extents_of(problem);
    REQUIRE_DONE(moetune_pick(family_, extents.begin(), extents.size(), 0, &choice_));
    REQUIRE_DONE(moetune_choice_workspace(family_, &choice_, &workspace_bytes_));
    for (std::uint64_t seed = 1; seed <= kInputs; ++seed)
      tensors_.push_back(
          std::make_unique<DeviceTensors>(kernel, FamilyMember{problem, kernel.default_call(problem)}, seed, stream));
  }
  ~Served() { moetune_close(runtime_); }
  Served(const Served&) = delete;

  const Operator& of() const { return of_; }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::int64_t output_bytes() const { return tensors_.front()->output_bytes(); }

  moetune_status launch(const moetune_arguments& arguments, cuda::Address workspace, std::size_t bytes,
                        cuda::StreamRef stream) const {
    return moetune_launch(family_, &choice_, &arguments, reinterpret_cast<void*>(workspace), bytes, stream.raw);
  }
  moetune_arguments arguments(int input, cuda::Address outputs) const {
    return tensors_[static_cast<std::size_t>(input)]->arguments_at(outputs);
  }

  // What calls make alone, twice; one is checked against float64 on the CPU.
  void learn(cuda::Address workspace, std::size_t bytes, const Checksums& checksums, const cuda::Stream& stream) {
    const Kernel& kernel = find_kernel(of_.kernel);
    const Problem problem = problem_of(of_);
    REQUIRE_DONE(launch(tensors_[0]->arguments(), workspace, bytes, stream));
    tensors_[0]->check_outputs({problem, kernel.default_call(problem)});
    const cuda::Memory outputs = cuda::allocate(output_bytes()), sums = cuda::allocate(8 * 2 * kInputs);
    cuda::set_bytes(sums.get(), 0, 8 * 2 * kInputs, stream);
    for (int call = 0; call < 2 * kInputs; ++call) {
      cuda::set_bytes(outputs.get(), 0xFF, output_bytes(), stream);
      REQUIRE_DONE(launch(arguments(call % kInputs, outputs.get()), workspace, bytes, stream));
      checksums.add(outputs.get(), output_bytes(), sums.get() + 8 * static_cast<cuda::Address>(call), stream);
    }
    std::array<std::uint64_t, 2 * kInputs> read{};
    cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(read.data()), sizeof read}, sums.get(), stream);
    std::copy_n(read.begin(), kInputs, expected_.begin());
    CHECK(std::equal(expected_.begin(), expected_.end(), read.begin() + kInputs));
    CHECK(expected_[0] != expected_[1]);
  }
  std::uint64_t expected(int input) const { return expected_[static_cast<std::size_t>(input)]; }

 private:
  const Operator& of_;
  moetune_runtime* runtime_ = nullptr;
  moetune_family* family_ = nullptr;
  moetune_choice choice_{};
  std::size_t workspace_bytes_ = 0;
  std::vector<std::unique_ptr<DeviceTensors>> tensors_;  // by input
  std::array<std::uint64_t, kInputs> expected_{};
};

// All operators that this GPU has, one stream, one workspace.
class Machine {
 public:
  Machine() : context_((cuda::initialize(), 0)), stream_(cuda::make_stream()) {
    for (const Operator& of : operators()) {
      if (const std::optional<Config> config = find_config(of, gpu().info().limits))
        served_.push_back(std::make_unique<Served>(of, *config, stream_));
    }
    for (const auto& one : served_) bytes_ = std::max(bytes_, one->workspace_bytes());
    workspace_ = make_workspace();
    for (const auto& one : served_) one->learn(workspace_.get(), bytes_, checksums_, stream_);
  }

  const std::vector<std::unique_ptr<Served>>& served() const { return served_; }

  // Wrong calls of threads of which every other one launches `second`: on the one stream with the one workspace, or
  // each thread on cudaStreamPerThread with a workspace of its own.
  int count_wrong(const Served& first, const Served& second, bool per_thread = false) const {
    const cuda::Memory sums = cuda::allocate(8 * kThreads * kCalls);
    cuda::set_bytes(sums.get(), 0, 8 * kThreads * kCalls, stream_);
    std::vector<cuda::Memory> outputs, workspaces;
    std::vector<std::thread> threads;
    std::array<int, kThreads> refused{};
    for (int thread = 0; thread < kThreads; ++thread) {
      const Served& one = thread % 2 == 0 ? first : second;
      outputs.push_back(cuda::allocate(kSlots * one.output_bytes()));
      if (per_thread) workspaces.push_back(make_workspace());
    }
    cuda::synchronize(stream_);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const auto index = static_cast<std::size_t>(thread);
        refused[index] =
            launch_all(thread % 2 == 0 ? first : second, outputs[index].get(),
                       sums.get() + 8 * kCalls * static_cast<cuda::Address>(thread),
                       per_thread ? workspaces[index].get() : workspace_.get(),
                       per_thread ? cuda::StreamRef(reinterpret_cast<void*>(2)) : cuda::StreamRef(stream_));
      });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(context_.alive());  // waits for all streams
    std::vector<std::uint64_t> read(std::size_t{kThreads} * kCalls);
    cuda::copy_to_host({reinterpret_cast<std::uint8_t*>(read.data()), 8 * read.size()}, sums.get(), stream_);
    int wrong = 0;
    for (int thread = 0; thread < kThreads; ++thread) {
      const Served& one = thread % 2 == 0 ? first : second;
      wrong += refused[static_cast<std::size_t>(thread)];
      for (int call = 0; call < kCalls; ++call)
        wrong += read[static_cast<std::size_t>(thread * kCalls + call)] != one.expected(call / kSlots % kInputs);
    }
    return wrong;
  }

  bool counters_are_zero() const {
    std::vector<std::uint8_t> counters(MOETUNE_WORKSPACE_COUNTERS);
    cuda::copy_to_host(counters, workspace_.get(), stream_);
    return std::count(counters.begin(), counters.end(), 0) == std::ssize(counters);
  }

 private:
  cuda::Memory make_workspace() const {
    cuda::Memory made = cuda::allocate(static_cast<std::int64_t>(bytes_));
    cuda::set_bytes(made.get(), 0, static_cast<std::int64_t>(MOETUNE_WORKSPACE_COUNTERS), stream_);
    return made;
  }

  // One thread's calls; returns how many were refused.
  int launch_all(const Served& one, cuda::Address outputs, cuda::Address sums, cuda::Address workspace,
                 cuda::StreamRef stream) const {
    context_.make_current();
    const std::int64_t bytes = one.output_bytes();
    int refused = 0;
    for (int begin = 0; begin < kCalls; begin += kSlots) {
      cuda::set_bytes(outputs, 0xFF, kSlots * bytes, stream);
      for (int slot = 0; slot < kSlots; ++slot) {
        const moetune_arguments arguments =
            one.arguments(begin / kSlots % kInputs, outputs + static_cast<cuda::Address>(slot * bytes));
        refused += one.launch(arguments, workspace, bytes_, stream) != MOETUNE_OK;
      }
      for (int slot = 0; slot < kSlots; ++slot)
        checksums_.add(outputs + static_cast<cuda::Address>(slot * bytes), bytes,
                       sums + 8 * static_cast<cuda::Address>(begin + slot), stream);
    }
    return refused;
  }

  cuda::Context context_;
  cuda::Stream stream_;
  Checksums checksums_;
  std::vector<std::unique_ptr<Served>> served_;
  std::size_t bytes_ = 0;
  cuda::Memory workspace_;
};

}  // namespace

TEST_CASE("what threads launch on one stream is legal on Hopper") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const Operator& of : operators()) {
    CAPTURE(of.name);
    const std::optional<Config> config = find_config(of, limits);
    CHECK(config);
    if (!config) continue;
    const Problem problem = problem_of(of);
    const Kernel& kernel = find_kernel(of.kernel);
    const Plan plan = kernel.plan(*config, problem, kernel.default_call(problem), limits);
    CHECK((plan.launches.size() == 2) == of.in_two_launches);
    if (of.in_two_launches) CHECK(!plan.scratch.empty());
  }
}

TEST_CASE("8 threads launch each operator, and pairs of them, on one stream, and on cudaStreamPerThread") {
  if (no_gpu()) return;
  const Machine machine;
  const auto& served = machine.served();
  REQUIRE(served.size() >= 5);
  for (std::size_t a = 0; a < served.size(); ++a) {
    for (std::size_t b = a; b < served.size(); ++b) {
      const Operator &first = served[a]->of(), &second = served[b]->of();
      if (a != b && !first.in_two_launches && !second.in_two_launches) continue;
      CAPTURE(first.name);
      CAPTURE(second.name);
      CHECK(machine.count_wrong(*served[a], *served[b]) == 0);
    }
  }
  CHECK(machine.counters_are_zero());
  CHECK(machine.count_wrong(*served.front(), *served.front(), true) == 0);
  CHECK(machine.count_wrong(*served.front(), *served[4], true) == 0);
}

}  // namespace moetune::shared_workspace_gpu_test
