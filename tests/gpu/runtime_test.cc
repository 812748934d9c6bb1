// A server's side on a real GPU: what a search stored, opened through moetune.h in this process, serves random
// problems of its families with the caller's own strides, scale and pools, and captured graphs, and every output
// is that of float64 on the CPU.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <thread>

#include "include/moetune.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "launch/bound_plan.h"
#include "launch/driver.h"
#include "runtime/variant.h"
#include "tests/gpu/device_tensors.h"
#include "tests/gpu/gpu.h"
#include "tests/kernels/random_call.h"
#include "tests/kernels/random_prefill_call.h"
#include "tests/tuner/temporary_cache.h"
#include "tuner/tune.h"

#define REQUIRE_OK(call) REQUIRE_MESSAGE((call) == MOETUNE_OK, moetune_last_error())

namespace moetune::runtime_test {
namespace {

constexpr std::size_t kBudget = 8;
constexpr int kMembers = 8;
constexpr std::int64_t kLongest = 400, kLongestPrompt = 120;  // the CPU computes them too

void search(Cache& cache, const Problem& problem, std::uint64_t seed) {
  const Kernel& kernel = find_kernel(problem.kernel);
  const Space& space = shared_space(kernel.name());
  const Assignment environment = expression_environment(problem, gpu().info().limits);
  const LegalSpace legal = space.enumerate(environment);
  const WorkloadKey key{kernel.name(), problem.text(), gpu().info().key, "sources", "toolchain"};
  TuneRequest request;
  request.kernel = &kernel;
  request.problem = problem;
  request.space = &legal;
  request.default_config = space.default_config(environment);
  request.strategy = "random";
  request.seed = seed;
  request.budget = kBudget;
  const TuneResult result = tune(request,
                                 {.device = gpu(),
                                  .cache = &cache,
                                  .workload = cache.workloads.id(key, kernel.specialization(problem).text()),
                                  .compiler = &gpu_compiler()},
                                 {});
  REQUIRE(result.best);
}

// A configuration of a problem that is launched in a workspace which others use too, as moetune_launch does.
class Guest {
 public:
  Guest(const char* kernel, const char* text, const std::function<bool(const Config&)>& wanted,
        const cuda::Stream& stream)
      : kernel_(find_kernel(kernel)),
        member_(member_of(kernel_, text)),
        plan_(kernel_.plan(config_of(kernel_, member_.problem, wanted), member_.problem, member_.call,
                           gpu().info().limits)),
        build_(compile_for_gpu(plan_.unit)),
        layout_(plan_),
        cubin_(plan_, build_->cubin),
        tensors_(kernel_, member_, 7, stream),
        stream_(stream) {}

  const WorkspaceLayout& layout() const { return layout_; }

  void launch(cuda::Address workspace) {
    tensors_.poison_outputs();
    BoundPlan(plan_, cubin_.functions(), [&](std::string_view name) {
      for (std::size_t i = 0; i < plan_.scratch.size(); ++i) {
        if (plan_.scratch[i].name.view() == name) return workspace + static_cast<cuda::Address>(layout_.offsets[i]);
      }
      return tensors_.address(name);
    }).enqueue(stream_);
  }

  void check_outputs() const { tensors_.check_outputs(member_); }

 private:
  static FamilyMember member_of(const Kernel& kernel, const char* text) {
    const Problem problem = kernel.parse(text);
    return {problem, kernel.default_call(problem)};
  }

  static Config config_of(const Kernel& kernel, const Problem& problem,
                          const std::function<bool(const Config&)>& wanted) {
    const LegalSpace legal =
        shared_space(kernel.name()).enumerate(expression_environment(problem, gpu().info().limits));
    for (ConfigId i = 0; i < legal.size(); ++i) {
      if (wanted(legal.config(i))) return legal.config(i);
    }
    throw std::logic_error("no configuration is as wanted");
  }

  const Kernel& kernel_;
  FamilyMember member_;
  Plan plan_;
  BuildPtr build_;
  WorkspaceLayout layout_;
  LoadedCubin cubin_;
  DeviceTensors tensors_;
  const cuda::Stream& stream_;
};

struct Server {
  explicit Server(const std::string& path) {
    const char* const paths[] = {path.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    REQUIRE_OK(moetune_open(&options, &runtime));
  }
  ~Server() { moetune_close(runtime); }
  Server(const Server&) = delete;

  moetune_runtime* runtime = nullptr;
};

// Searches the problems that name families, in this process.
void search_families(const std::filesystem::path& file, const Kernel& kernel, std::span<const char* const> families) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  std::uint64_t seed = 1;
  for (const char* text : families) search(cache, kernel.parse(text), seed++);
}

// A choice for one problem of a family, with its workspace and the caller's tensors.
class Step {
 public:
  Step(const Server& server, moetune_family* family, const Kernel& kernel, const FamilyMember& member,
       std::uint64_t seed, const cuda::Stream& stream)
      : family_(family), tensors_(kernel, member, seed, stream) {
    const Extents extents = kernel.extents_of(member.problem);
    REQUIRE_OK(moetune_pick(family, extents.begin(), extents.size(), 0, &choice_));
    REQUIRE_OK(moetune_choice_workspace(family, &choice_, &bytes_));
    workspace_ = cuda::allocate(static_cast<std::int64_t>(bytes_));
    REQUIRE_OK(moetune_workspace_init(server.runtime, address(), bytes_, stream.get()));
  }

  moetune_status launch(void* stream) const {
    return moetune_launch(family_, &choice_, &tensors_.arguments(), address(), bytes_, stream);
  }
  DeviceTensors& tensors() { return tensors_; }

 private:
  void* address() const { return reinterpret_cast<void*>(workspace_.get()); }

  moetune_family* family_;
  DeviceTensors tensors_;
  moetune_choice choice_{};
  std::size_t bytes_ = 0;
  cuda::Memory workspace_;
};

// Random problems of each family, launched twice plainly and once from a graph.
template <typename Members>
void serve_members(const char* kernel_name, std::span<const char* const> families, std::int64_t longest) {
  const Kernel& kernel = find_kernel(kernel_name);
  const TemporaryFile file;
  search_families(file.path, kernel, families);
  const Server server(file.path.string());
  const cuda::Context context(0);
  const cuda::Stream stream = cuda::make_stream();
  std::uint64_t seed = 100;
  for (const char* text : families) {
    const Problem problem = kernel.parse(text);
    moetune_family* family = nullptr;
    REQUIRE_OK(
        moetune_family_open(server.runtime, kernel_name, kernel.specialization(problem).text().c_str(), &family));
    Members members(kernel, problem, longest, seed);
    for (int i = 0; i < kMembers; ++i) {
      const FamilyMember member = members.next();
      CAPTURE(member.problem.text());
      Step step(server, family, kernel, member, ++seed, stream);
      const auto launch = [&] { REQUIRE_OK(step.launch(stream.get())); };
      launch();
      launch();  // counters are left as they were
      step.tensors().check_outputs(member);
      step.tensors().poison_outputs();
      const cuda::Graph graph = cuda::capture(stream, launch);
      cuda::launch(graph, stream);
      step.tensors().check_outputs(member);
    }
  }
}

// The driver as another library of the server calls it.
template <typename... Arguments>
void call_driver(const char* name, Arguments... arguments) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  void* const symbol = ::dlsym(library, name);
  REQUIRE(symbol != nullptr);
  CHECK(reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...) == 0);
}

// A context of its own on the first device, beside the primary one, with a stream in it. Current on no thread but
// where it is made so.
struct ForeignContext {
  ForeignContext() {
    void* popped = nullptr;
    call_driver("cuCtxCreate_v2", &context, 0U, 0);
    call_driver("cuStreamCreate", &stream, 1U);
    call_driver("cuCtxPopCurrent_v2", &popped);
  }
  ~ForeignContext() { call_driver("cuCtxDestroy_v2", context); }
  ForeignContext(const ForeignContext&) = delete;

  void* context = nullptr;
  void* stream = nullptr;
};

}  // namespace

TEST_CASE("a server launches 32 random problems of four families from stored winners, plainly and in graphs") {
  if (no_gpu()) return;
  serve_members<RandomMembers>("decode_attention", kFamilies, kLongest);
}

TEST_CASE("a server launches 48 random prompts of six families of prefill_attention from stored winners") {
  if (no_gpu()) return;
  serve_members<RandomPrefills>("prefill_attention", kPrefillFamilies, kLongestPrompt);
}

TEST_CASE("a stream or a thread of another context is refused, and the server's own works on") {
  if (no_gpu()) return;
  const Kernel& kernel = find_kernel("decode_attention");
  const TemporaryFile file;
  search_families(file.path, kernel, std::span(kFamilies).first(1));
  const Server server(file.path.string());
  const cuda::Context context(0);
  const cuda::Stream stream = cuda::make_stream();
  const Problem problem = kernel.parse(kFamilies[0]);
  moetune_family* family = nullptr;
  REQUIRE_OK(
      moetune_family_open(server.runtime, "decode_attention", kernel.specialization(problem).text().c_str(), &family));
  const FamilyMember member = RandomMembers(kernel, problem, kLongest, 7).next();
  Step step(server, family, kernel, member, 7, stream);
  const ForeignContext foreign;
  for (int again = 0; again < 2; ++again) {
    CHECK(step.launch(foreign.stream) == MOETUNE_WRONG_DEVICE);
    CHECK(std::string(moetune_last_error()).find("the stream is of another context") != std::string::npos);
    REQUIRE_OK(step.launch(stream.get()));
  }
  step.tensors().check_outputs(member);

  moetune_status there = MOETUNE_OK;
  std::string sentence;
  std::thread([&] {
    call_driver("cuCtxSetCurrent", foreign.context);
    there = step.launch(stream.get());
    sentence = moetune_last_error();
  }).join();
  CHECK(there == MOETUNE_WRONG_DEVICE);
  CHECK(sentence.find("the thread's current context is not") != std::string::npos);
  step.tensors().poison_outputs();
  REQUIRE_OK(step.launch(stream.get()));
  step.tensors().check_outputs(member);
}

TEST_CASE("kernels with counters take turns in one workspace, whose counters stay at zero") {
  if (no_gpu()) return;
  cuda::initialize();
  const cuda::Context context(0);
  const cuda::Stream stream = cuda::make_stream();
  std::vector<Guest> guests;
  guests.emplace_back(
      "router", "tokens=512,experts=128,top_k=8,dtype=bf16",
      [](const Config& config) { return config.is("schedule", "barrier") && config.number("warps") == 8; }, stream);
  guests.emplace_back(
      "decode_attention", "batch=4,q_heads=32,kv_heads=8,context=2048",
      [](const Config& config) { return config.is("combine", "last_cta") && config.number("splits") > 1; }, stream);
  guests.emplace_back(
      "router", "tokens=300,experts=64,top_k=6,dtype=bf16,map=local",
      [](const Config& config) { return config.is("schedule", "split"); }, stream);
  std::int64_t bytes = 0;
  for (const Guest& guest : guests) bytes = std::max(bytes, guest.layout().bytes);
  const cuda::Memory workspace = cuda::allocate(bytes);
  cuda::set_bytes(workspace.get(), 0, kWorkspaceCounters, stream);
  for (int round = 0; round < 4; ++round) {
    for (Guest& guest : guests) guest.launch(workspace.get());
    for (const Guest& guest : guests) guest.check_outputs();
    std::vector<std::uint8_t> counters(static_cast<std::size_t>(kWorkspaceCounters));
    cuda::copy_to_host(counters, workspace.get(), stream);
    CHECK(std::count(counters.begin(), counters.end(), 0) == kWorkspaceCounters);
  }
}

TEST_CASE("routers whose blocks wait for each other run on two streams at once") {
  if (no_gpu()) return;
  cuda::initialize();
  const cuda::Context context(0);
  const cuda::Stream streams[] = {cuda::make_stream(), cuda::make_stream()};
  std::vector<Guest> guests;
  std::vector<cuda::Memory> workspaces;
  for (const cuda::Stream& stream : streams) {
    guests.emplace_back(
        "router", "tokens=8192,experts=128,top_k=8,dtype=bf16",
        [](const Config& config) { return config.is("schedule", "barrier") && config.number("warps") == 32; }, stream);
    workspaces.push_back(cuda::allocate(guests.back().layout().bytes));
    cuda::set_bytes(workspaces.back().get(), 0, kWorkspaceCounters, stream);
  }
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < guests.size(); ++i) guests[i].launch(workspaces[i].get());
  }
  for (const Guest& guest : guests) guest.check_outputs();
}

}  // namespace moetune::runtime_test
