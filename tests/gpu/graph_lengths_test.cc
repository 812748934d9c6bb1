// One captured graph, replayed while the lengths in device memory change: how a server decodes, how it prefills in
// chunks, and where a chunk may end in a last tile.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
        harness(compile_for_gpu({Harness::kSource, {}})->cubin, gpu().info().limits, stream) {}

  cuda::Context context;
  cuda::Stream stream;
  Harness harness;
};

// Buffers of integers by name.
using LengthsByName = std::map<std::string, Lengths>;

// A problem's buffers, one of each, and what the exact reference makes of them.
class Attending {
 public:
  Attending(Machine& machine, const Kernel& kernel, const Problem& problem) : machine_(machine) {
    const std::vector<Buffer> buffers = kernel.buffers(problem, 5);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& buffer = buffers[i];
      Memory& memory = memory_[buffer.name];
      memory = cuda::allocate(buffer.bytes());
      if (buffer.role == Role::input) machine.harness.fill(memory.get(), buffer, 5, fill_stream(i, 0));
      if (buffer.fill.kind == Fill::Kind::integers) lengths_[buffer.name] = buffer.fill.integers;
      if (buffer.name == "o") o_ = buffer;
    }
    exact_ = cuda::allocate(o_.elements * 4);
    const Plan plan = kernel.reference(Reference::exact, problem, gpu().info().limits);
    reference_.emplace(
        plan, compile_for_gpu(plan.unit)->cubin,
        [this](std::string_view name, std::int64_t) { return name == "o" ? exact_.get() : address(name); },
        machine.stream);
  }

  const Lengths& lengths(const std::string& name) const { return lengths_.at(name); }
  const Tolerance& tolerance() const { return o_.check.tolerance; }

  LoadedPlan load(const Plan& plan, const Build& build) const {
    return LoadedPlan(
        plan, build.cubin, [this](std::string_view name, std::int64_t) { return address(name); }, machine_.stream);
  }

  // What the graph makes of these lengths against the reference. Rows that neither writes are NaN in both.
  ErrorFigures replay(const cuda::Graph& graph, const LengthsByName& changed) {
    for (const auto& [name, lengths] : changed) {
      REQUIRE(lengths.size() == lengths_.at(name).size());
      std::vector<std::uint8_t> bytes(lengths.size() * sizeof lengths[0]);
      std::memcpy(bytes.data(), lengths.data(), bytes.size());
      cuda::copy_to_device(address(name), bytes, machine_.stream);
    }
    cuda::set_bytes(exact_.get(), kPoisonByte, o_.elements * 4, machine_.stream);
    cuda::set_bytes(address("o"), kPoisonByte, o_.bytes(), machine_.stream);
    reference_->enqueue(0);
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
  LengthsByName lengths_;
  Buffer o_;
  Memory exact_;
  std::optional<LoadedPlan> reference_;
};

// No longer than those of the problem, whose pages and keys end there.
std::vector<LengthsByName> decoding_steps(const Attending& decoding) {
  const Lengths longest = decoding.lengths("lengths");
  Lengths half = longest, few = longest, one_long = longest;
  for (std::size_t i = 0; i < longest.size(); ++i) {
    half[i] = longest[i] / 2;
    few[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? std::min(1, longest[i]) : std::min(77, longest[i]);
    one_long[i] = i == 1 ? longest[i] : 0;
  }
  std::vector<LengthsByName> steps;
  for (const Lengths& lengths : {longest, half, few, one_long, longest}) steps.push_back({{"lengths", lengths}});
  return steps;
}

// New tokens of a sequence, and all of its tokens.
using NewAndAll = std::pair<std::int32_t, std::int32_t>;

std::string text_of(const LengthsByName& changed) {
  std::string text;
  for (const auto& [name, lengths] : changed) {
    text += name + ":";
    for (const std::int32_t length : lengths) text += " " + std::to_string(length);
    text += "; ";
  }
  return text;
}

// Offsets and lengths for `sequences`, with the names that the problem has.
LengthsByName prefill_step(const std::vector<NewAndAll>& sequences, bool paged) {
  Lengths q_offsets = {0}, kv_offsets = {0}, kv_lengths;
  for (const auto& [new_tokens, tokens] : sequences) {
    q_offsets.push_back(q_offsets.back() + new_tokens);
    kv_offsets.push_back(kv_offsets.back() + tokens);
    kv_lengths.push_back(tokens);
  }
  return {{"q_offsets", q_offsets}, {paged ? "kv_lengths" : "kv_offsets", paged ? kv_lengths : kv_offsets}};
}

// Sequences of up to `new_tokens` new ones of up to `tokens`.
std::vector<LengthsByName> prefill_steps(std::size_t batch, NewAndAll most, bool paged) {
  const auto [new_tokens, tokens] = most;
  std::vector<NewAndAll> longest(batch, most), some = longest, few = longest, one_long = longest;
  for (std::size_t i = 0; i < batch; ++i) {
    const auto number = static_cast<std::int32_t>(i);
    some[i] = {new_tokens / (1 + number % 3), tokens / (1 + number % 3)};
    few[i] = number % 3 == 0   ? NewAndAll{0, tokens}
             : number % 3 == 1 ? NewAndAll{1, 1 + number}
                               : NewAndAll{std::min(5, new_tokens), 2};
    one_long[i] = i == 1 ? most : NewAndAll{0, 0};
  }
  std::vector<LengthsByName> steps;
  for (const auto& sequences : {longest, some, few, one_long, longest}) steps.push_back(prefill_step(sequences, paged));
  return steps;
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

// Whole prompts, and chunks of 96 new tokens; `batch` sequences of the full length.
constexpr LengthCase kPrefillCases[] = {
    {"batch=6,seqlen_q=700,seqlen_kv=700",
     "body=wgmma,warpgroups=2,tile=128,stages=2,query_stages=1,packed=0,overlap=1,ping_pong=1,"
     "schedule=dynamic,cluster=1,"
     "section=0,splits=1"},
    {"batch=6,seqlen_q=700,seqlen_kv=700,lse=natural",
     "body=wgmma,warpgroups=2,tile=80,stages=2,query_stages=2,packed=0,overlap=1,ping_pong=0,schedule=static,cluster=1,"
     "section=4,splits=1"},
    {"batch=6,seqlen_q=96,seqlen_kv=1500,page=64",
     "body=wgmma,warpgroups=1,tile=64,stages=2,query_stages=1,packed=1,overlap=1,ping_pong=0,schedule=grid,cluster=1,"
     "section=0,splits=3"},
    {"batch=6,seqlen_q=96,seqlen_kv=1500,page=16,kv_dtype=e4m3",
     "body=wgmma,warpgroups=2,tile=128,stages=1,query_stages=1,packed=0,overlap=0,ping_pong=0,"
     "schedule=dynamic,cluster=1,"
     "section=0,splits=1"},
    {"batch=6,seqlen_q=96,seqlen_kv=1500",
     "body=mma,warpgroups=2,tile=64,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid,cluster=1,"
     "section=0,splits=2"},
};

// With trim=1: tiles whose half is 64 tokens and 80, and whatever else decides where a warpgroup's rows end. One
// sequence. ptxas serializes wgmma in none of them. With a window the problem is a whole prompt: keys that none of its
// tokens sees hold NaN, and a shorter step would see them.
constexpr LengthCase kTrimCases[] = {
    {"batch=1,seqlen_q=200,seqlen_kv=520",
     "body=wgmma,warpgroups=2,tile=128,stages=2,query_stages=1,packed=0,overlap=1,ping_pong=1,schedule=grid,"
     "cluster=1,section=0,splits=1"},
    {"batch=1,seqlen_q=200,seqlen_kv=520,page=16",
     "body=wgmma,warpgroups=2,tile=144,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid,"
     "cluster=1,section=0,splits=1"},
    {"batch=1,seqlen_q=520,seqlen_kv=520,window=90",
     "body=wgmma,warpgroups=2,tile=144,stages=2,query_stages=2,packed=0,overlap=1,ping_pong=0,schedule=static,"
     "cluster=1,section=0,splits=1"},
    {"batch=1,seqlen_q=60,seqlen_kv=520,page=64",
     "body=wgmma,warpgroups=2,tile=128,stages=2,query_stages=1,packed=1,overlap=1,ping_pong=0,schedule=grid,"
     "cluster=1,section=0,splits=2"},
    {"batch=1,seqlen_q=200,seqlen_kv=520,page=16,kv_dtype=e4m3",
     "body=wgmma,warpgroups=2,tile=128,stages=1,query_stages=1,packed=0,overlap=0,ping_pong=0,"
     "schedule=dynamic,cluster=1,section=0,splits=1"},
};

// Chunks and prompts of which a warpgroup's rows see 1 token of their last tile, about half of it, or about all.
std::vector<NewAndAll> around_halves(const Problem& problem, const Config& config) {
  const auto tile = static_cast<std::int32_t>(config.number("tile"));
  const std::int32_t half = (tile + 31) / 32 * 16;  // kFewTokens of templates/prefill_attention/shape.cuh
  const auto heads = static_cast<std::int32_t>(problem["q_heads"] / problem["kv_heads"]);
  const std::int32_t tokens = 64 / (config.number("packed") == 1 ? heads : 1);  // of a warpgroup's rows
  std::vector<NewAndAll> chunks;
  for (const std::int32_t new_tokens : {1, tokens - 1, tokens, tokens + 1, 2 * tokens - 1, 2 * tokens, 3 * tokens}) {
    for (int warpgroup = 0; warpgroup * tokens < new_tokens; ++warpgroup) {
      const std::int32_t end = std::min((warpgroup + 1) * tokens, new_tokens);  // of the warpgroup's tokens
      for (const std::int32_t first : {0, tile, 2 * tile}) {
        for (const std::int32_t seen : {1, half - 1, half, half + 1, tile - 1, tile}) {
          const std::int32_t all = first + seen + new_tokens - end;
          if (all >= new_tokens && all <= problem["seqlen_kv"]) chunks.emplace_back(new_tokens, all);
        }
      }
    }
  }
  return chunks;
}

Config prefill_case_config(const LengthCase& test, const Problem& problem, const DeviceLimits& limits,
                           const char* trim = "trim=0") {
  const std::string file = "spaces/prefill_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  const Config config = space.parse_config(std::string(test.config) + ",lag=8,poly=0," + trim);
  REQUIRE(space.why_illegal(config, expression_environment(problem, limits), Rules::must) == "");
  return config;
}

Problem prefill_case_problem(const LengthCase& test) {
  return find_kernel("prefill_attention").parse(std::string(test.problem) + ",q_heads=8,kv_heads=2,head_dim=128");
}

Config case_config(const LengthCase& test, const Problem& problem, const DeviceLimits& limits) {
  const std::string file = "spaces/decode_attention.json";
  const Space space = Space::parse(read_resource(file), file);
  const Assignment environment = expression_environment(problem, limits);
  const Config config = space.parse_config(std::string(test.config) + ",row_tiles=1,query=registers,l2=evict_first");
  REQUIRE(space.why_illegal(config, environment) == "");
  return config;
}

Problem case_problem(const LengthCase& test) {
  return find_kernel("decode_attention").parse(std::string(test.problem) + ",q_heads=32,kv_heads=8,head_dim=128");
}

// One graph of the plan against the reference, with the lengths of each step.
template <typename Steps>
void check_replays(Machine& machine, const Problem& problem, const Config& config, const Steps& steps_of) {
  const Kernel& kernel = find_kernel(problem.kernel);
  const Plan plan = kernel.plan(config, problem, gpu().info().limits);
  const BuildPtr build = compile_for_gpu(plan.unit);
  REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
  Attending attending(machine, kernel, problem);
  LoadedPlan loaded = attending.load(plan, *build);
  const cuda::Graph graph = cuda::capture(machine.stream, [&] { loaded.enqueue(0); });
  for (const LengthsByName& lengths : steps_of(attending)) {
    CAPTURE(text_of(lengths));
    const ErrorFigures figures = attending.replay(graph, lengths);
    CHECK(figures.mask_mismatches == 0);
    CHECK(figures.sum_yy > 0);
    CHECK(figures.dissimilarity() < attending.tolerance().dissimilarity);
  }
}

}  // namespace

// Needs no GPU.
TEST_CASE("what one graph is captured of is legal on Hopper") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const LengthCase& test : kCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    case_config(test, case_problem(test), limits);
  }
  for (const LengthCase& test : kPrefillCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    prefill_case_config(test, prefill_case_problem(test), limits);
  }
}

// Needs no GPU.
TEST_CASE("configurations that trim a last tile are legal on Hopper, and lengths end on both sides of its half") {
  for (const LengthCase& test : kTrimCases) {
    CAPTURE(test.config);
    const Problem problem = prefill_case_problem(test);
    const Config config = prefill_case_config(test, problem, limits_of_architecture("sm_90a"), "trim=1");
    const std::vector<NewAndAll> chunks = around_halves(problem, config);
    CHECK(chunks.size() >= 60);
    for (const auto& [new_tokens, all] : chunks) {
      CHECK(new_tokens <= problem["seqlen_q"]);
      CHECK(all <= problem["seqlen_kv"]);
    }
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
    check_replays(machine, problem, case_config(test, problem, limits), decoding_steps);
  }
}

TEST_CASE("one captured graph of a prompt, or of chunks, serves other new tokens and other caches") {
  if (no_gpu()) return;
  const DeviceLimits limits = gpu().info().limits;
  if (limits.compute_capability != 90) return;
  Machine machine;
  for (const LengthCase& test : kPrefillCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    const Problem problem = prefill_case_problem(test);
    const NewAndAll most = {static_cast<std::int32_t>(problem["seqlen_q"]),
                            static_cast<std::int32_t>(problem["seqlen_kv"])};
    check_replays(machine, problem, prefill_case_config(test, problem, limits), [&](const Attending&) {
      return prefill_steps(static_cast<std::size_t>(problem["batch"]), most, problem["page"] > 0);
    });
  }
}

// A warpgroup that computes half of its last tile, or should not have: each sequence by itself, so that no other hides
// its error.
TEST_CASE("with trim every end of a chunk is right: before the half of a last tile, at it and behind it") {
  if (no_gpu()) return;
  const DeviceLimits limits = gpu().info().limits;
  if (limits.compute_capability != 90) return;
  Machine machine;
  for (const LengthCase& test : kTrimCases) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    const Problem problem = prefill_case_problem(test);
    const Config config = prefill_case_config(test, problem, limits, "trim=1");
    check_replays(machine, problem, config, [&](const Attending&) {
      std::vector<LengthsByName> steps;
      for (const NewAndAll& chunk : around_halves(problem, config))
        steps.push_back(prefill_step({chunk}, problem["page"] > 0));
      return steps;
    });
  }
}

}  // namespace moetune
