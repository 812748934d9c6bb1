// One captured graph, replayed while the lengths in device memory change: how a server decodes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tuner/worker/harness.h"
#include "tuner/worker/loaded_plan.h"

namespace moetune {
namespace {

using Lengths = std::vector<std::int32_t>;

// The GPU in this process; the worker has it in another.
struct Machine {
  Machine()
      : context((cuda::initialize(), 0)),
        stream(cuda::make_stream()),
        harness(compile_for_gpu({Harness::kSource, {}})->cubin, gpu().info().limits.sm_count, stream) {}

  cuda::Context context;
  cuda::Stream stream;
  Harness harness;
};

// A problem's buffers, one of each, and what the exact reference makes of them.
class Decoding {
 public:
  Decoding(Machine& machine, const Problem& problem) : machine_(machine) {
    const Kernel& kernel = find_kernel("decode_attention");
    const std::vector<Buffer> buffers = kernel.buffers(problem, 5);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = buffers[i];
      Memory& memory = memory_[buffer.name];
      memory = cuda::allocate(buffer.bytes());
      if (buffer.role == Role::input) machine.harness.fill(memory.get(), buffer, 5, fill_stream(i, 0));
      if (buffer.name == "lengths") lengths_ = buffer.fill.integers;
      if (buffer.name == "o") o_ = buffer;
    }
    exact_ = cuda::allocate(o_.elements * 4);
    const Plan plan = kernel.reference(Reference::exact, problem, gpu().info().limits);
    reference_.emplace(
        plan, compile_for_gpu(plan.unit)->cubin,
        [this](std::string_view name, std::int64_t) { return name == "o" ? exact_.get() : address(name); },
        machine.stream);
  }

  const Lengths& lengths() const { return lengths_; }
  const Tolerance& tolerance() const { return o_.check.tolerance; }

  LoadedPlan load(const Plan& plan, const Build& build) const {
    return LoadedPlan(
        plan, build.cubin, [this](std::string_view name, std::int64_t) { return address(name); },
        machine_.stream);
  }

  // What the graph makes of these lengths against the reference.
  ErrorFigures replay(const cuda::Graph& graph, const Lengths& lengths) {
    std::vector<std::uint8_t> bytes(lengths.size() * sizeof lengths[0]);
    std::memcpy(bytes.data(), lengths.data(), bytes.size());
    cuda::copy_to_device(address("lengths"), bytes, machine_.stream);
    reference_->enqueue(0);
    cuda::set_bytes(address("o"), kPoisonByte, o_.bytes(), machine_.stream);
    cuda::launch(graph, machine_.stream);
    cuda::synchronize(machine_.stream);
    return machine_.harness.compare(address("o"), o_.dtype, exact_.get(), o_.elements);
  }

 private:
  using Memory = cuda::Memory;
  cuda::Address address(std::string_view name) const {
    const auto found = memory_.find(name);
    return found == memory_.end() ? 0 : found->second.get();
  }

  Machine& machine_;
  std::map<std::string, Memory, std::less<>> memory_;
  Lengths lengths_;
  Buffer o_;
  Memory exact_;
  std::optional<LoadedPlan> reference_;
};

// No longer than those of the problem, whose pages and keys end there.
std::vector<Lengths> steps_from(const Lengths& longest) {
  Lengths half = longest, few = longest, one_long = longest;
  for (std::size_t i = 0; i < longest.size(); ++i) {
    half[i] = longest[i] / 2;
    few[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? std::min(1, longest[i]) : std::min(77, longest[i]);
    one_long[i] = i == 1 ? longest[i] : 0;
  }
  return {longest, half, few, one_long, longest};
}

struct LengthCase {
  const char* problem;
  const char* config;
};

constexpr LengthCase kCases[] = {
    {"batch=24,context=4096,lengths=ragged",
     "body=tma,math=mma16,schedule=persistent,residents=1,tile=128,warps=8,stages=2,producers=1,splits=1,"
     "combine=last_cta,ahead=0"},
    {"batch=24,context=4096,lengths=ragged,page=64",
     "body=tma,math=swap,schedule=persistent,residents=1,tile=64,warps=4,stages=3,producers=2,splits=1,"
     "combine=kernel,ahead=0"},
    {"batch=24,context=4096,lengths=ragged",
     "body=tma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,splits=3,"
     "combine=last_cta,ahead=1"},
    {"batch=24,context=4096,lengths=ragged,page=16",
     "body=mma,math=mma16,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=0,splits=3,"
     "combine=kernel,ahead=0"},
    {"batch=24,context=4096,lengths=ragged",
     "body=tma,math=swap,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,splits=2,"
     "combine=cluster,ahead=1"},
};

Config case_config(const LengthCase& test, const Problem& problem, const DeviceLimits& limits) {
  const std::string file = "spaces/decode_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  const Assignment environment = expression_environment(problem, limits);
  const Config config =
      space.parse_config(std::string(test.config) + ",row_tiles=1,query=registers,l2=evict_first");
  REQUIRE(space.why_illegal(config, environment) == "");
  return config;
}

Problem case_problem(const LengthCase& test) {
  return parse_problem("decode_attention", find_kernel("decode_attention").schema(), nullptr,
                       std::string(test.problem) + ",q_heads=32,kv_heads=8,head_dim=128");
}

}  // namespace

// Needs no GPU.
TEST_CASE("what one graph is captured of is legal on Hopper") {
  for (const LengthCase& test : kCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    case_config(test, case_problem(test), limits_of_architecture("sm_90a"));
  }
}

TEST_CASE("one captured graph serves changing lengths") {
  if (no_gpu()) return;
  const DeviceLimits limits = gpu().info().limits;
  if (limits.compute_capability < 90) return;
  Machine machine;
  for (const LengthCase& test : kCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    const Problem problem = case_problem(test);
    const Plan plan =
        find_kernel("decode_attention").plan(case_config(test, problem, limits), problem, limits);
    const BuildPtr build = compile_for_gpu(plan.unit);
    REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
    Decoding decoding(machine, problem);
    LoadedPlan loaded = decoding.load(plan, *build);
    const cuda::Graph graph = cuda::capture(machine.stream, [&] { loaded.enqueue(0); });
    const Tolerance& tolerance = decoding.tolerance();
    for (const Lengths& lengths : steps_from(decoding.lengths())) {
      const ErrorFigures figures = decoding.replay(graph, lengths);
      CHECK(figures.mask_mismatches == 0);
      CHECK(figures.sum_yy > 0);
      CHECK(figures.dissimilarity() < tolerance.dissimilarity);
    }
  }
}

}  // namespace moetune
