// Every registered kernel on the GPU: its references against float64 on the CPU, and a sample of its space.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/rules.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/problems.h"
#include "tuner/compile/launchable.h"

namespace moetune {
namespace {

constexpr std::uint64_t kSeed = 5;

std::string named_part(const Config& config) {
  std::string text;
  for (const auto& [name, value] : config) {
    if (value.is_named()) text += name + "=" + value.name + ",";
  }
  return text;
}

// Seeded, and even over the combinations of named parameters (bodies, loaders, combine methods).
std::vector<Config> sample(const LegalSpace& space, std::size_t count, std::uint64_t seed) {
  std::map<std::string, std::vector<Config>> groups;
  // Of a large space every so many are enough to choose from.
  const std::size_t step = 1 + space.size() / 20'000;
  for (std::size_t id = seed % step; id < space.size(); id += step) {
    const Config config = space.config(static_cast<ConfigId>(id));
    groups[named_part(config)].push_back(config);
  }
  std::mt19937_64 random(seed);
  std::vector<std::vector<Config>*> order;
  for (auto& [name, group] : groups) {
    std::shuffle(group.begin(), group.end(), random);
    order.push_back(&group);
  }
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Config> chosen;
  for (std::size_t round = 0; chosen.size() < std::min(count, space.size()); ++round) {
    for (const std::vector<Config>* group : order) {
      if (round < group->size() && chosen.size() < count) chosen.push_back((*group)[round]);
    }
  }
  return chosen;
}

LegalSpace legal_space(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits, Rules rules) {
  const std::string file = "spaces/" + kernel.name() + ".json";
  return Space::parse(read_resource(file), file).enumerate(expression_environment(problem, limits), rules);
}

}  // namespace

TEST_CASE("every kernel's exact reference agrees with float64 on the CPU") {
  if (no_gpu()) return;
  for (const Kernel* kernel : all_kernels()) {
    for (const Problem& problem : small_problems(*kernel)) {
      CAPTURE(kernel->name());
      CAPTURE(problem.text());
      gpu().open(*kernel, problem, kSeed);
      check_exact_reference(*kernel, problem, kernel->default_call(problem), kSeed);
    }
  }
}

namespace {

// A tensor of the problem has more than 2^31 elements; the default and one configuration more.
struct LargeCase {
  const char* kernel;
  const char* problem;
  const char* config;
};

constexpr const char* kLargeDecode =
    "body=mma,math=swap,schedule=grid,residents=0,producers=0,tile=64,warps=4,stages=2,row_tiles=1,"
    "query=registers,splits=4,combine=kernel,ahead=0";
constexpr const char* kLargePrefill =
    "body=mma,warpgroups=2,tile=64,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid,"
    "section=0,splits=2";

constexpr LargeCase kLargeCases[] = {
    {"decode_attention", "batch=9,q_heads=32,kv_heads=8,head_dim=128,context=262144,page=0", kLargeDecode},
    {"decode_attention", "batch=9,q_heads=32,kv_heads=8,head_dim=128,context=262144,page=64", kLargeDecode},
    {"prefill_attention", "batch=9,q_heads=16,kv_heads=8,head_dim=128,seqlen_q=64,seqlen_kv=262144,page=0",
     kLargePrefill},
    {"prefill_attention", "batch=9,q_heads=16,kv_heads=8,head_dim=128,seqlen_q=64,seqlen_kv=262144,page=64",
     kLargePrefill},
    // Queries and outputs.
    {"prefill_attention",
     "batch=9,q_heads=64,kv_heads=8,head_dim=128,seqlen_q=32768,seqlen_kv=32768,window=64,lse=natural",
     "body=mma,warpgroups=2,tile=64,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,schedule=grid,"
     "section=0,splits=1"},
};

Config large_config(const LargeCase& test, const Problem& problem, const DeviceLimits& limits, const char* changes) {
  const std::string file = std::string("spaces/") + test.kernel + ".json";
  const Space space = Space::parse(read_resource(file), file);
  const Assignment environment = expression_environment(problem, limits);
  const std::optional<Config> base = space.default_config(environment);
  REQUIRE(base);
  if (*changes == '\0') return *base;
  const Config config = space.parse_config(changes, &*base);
  REQUIRE(space.why_illegal(config, environment, Rules::must) == "");
  return config;
}

Problem large_problem(const LargeCase& test) { return find_kernel(test.kernel).parse(test.problem); }

}  // namespace

// Needs no GPU.
TEST_CASE("problems with tensors past 2^31 elements have them, and configurations that can run") {
  for (const LargeCase& test : kLargeCases) {
    CAPTURE(test.problem);
    const Kernel& kernel = find_kernel(test.kernel);
    const Problem problem = large_problem(test);
    kernel.check(problem);
    const std::vector<Buffer> buffers = kernel.buffers(problem, kSeed);
    CHECK(std::any_of(buffers.begin(), buffers.end(),
                      [](const Buffer& buffer) { return buffer.elements > std::int64_t{1} << 31; }));
    large_config(test, problem, limits_of_architecture("sm_90a"), test.config);
  }
}

TEST_CASE("tensors past 2^31 elements are read and written where they lie") {
  if (no_gpu()) return;
  if (gpu().info().key.memory_bytes < std::int64_t{60} << 30) {
    MESSAGE("skipped: it takes 60 GiB of GPU memory");
    return;
  }
  for (const LargeCase& test : kLargeCases) {
    CAPTURE(test.problem);
    const Kernel& kernel = find_kernel(test.kernel);
    const Problem problem = large_problem(test);
    const DeviceLimits& limits = gpu().info().limits;
    gpu().open(kernel, problem, kSeed);
    for (const char* const changes : {"", test.config}) {
      const Config config = large_config(test, problem, limits, changes);
      CAPTURE(config.text());
      const Plan plan = kernel.plan(config, problem, limits);
      const BuildPtr build = compile_for_gpu(plan.unit);
      REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
      const TrialResult result = gpu().run({config, plan, build}, one_sample());
      CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
    }
  }
}

namespace {

// Configurations of a problem, on their way through the compilers.
struct Sample {
  const Kernel* kernel = nullptr;
  Problem problem;
  std::vector<Config> configs;
  std::vector<Plan> plans;
  std::vector<std::shared_future<BuildPtr>> builds;
};

Sample begin_sample(const Kernel* kernel, const Problem& problem, Rules rules, std::size_t count, std::uint64_t seed) {
  Sample begun{.kernel = kernel, .problem = problem};
  begun.configs = sample(legal_space(*kernel, problem, gpu().info().limits, rules), count, seed);
  for (const Config& config : begun.configs) {
    begun.plans.push_back(kernel->plan(config, problem, gpu().info().limits));
    begun.builds.push_back(gpu_compiler().submit(begun.plans.back().unit));
  }
  return begun;
}

struct SampleCounts {
  std::size_t ran = 0, refused = 0;
};

void run_sample(const Sample& begun, SampleCounts& counts) {
  for (std::size_t i = 0; i < begun.configs.size(); ++i) {
    CAPTURE(begun.configs[i].text());
    const BuildPtr build = begun.builds[i].get();
    REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
    if (!why_unlaunchable(begun.plans[i], *build, gpu().info().limits).empty()) {
      ++counts.refused;
      continue;
    }
    ++counts.ran;
    const TrialResult result = gpu().run({begun.configs[i], begun.plans[i], build}, one_sample());
    CHECK_MESSAGE(result.outcome == Outcome::ok, outcome_name(result.outcome), ": ", result.message);
  }
}

constexpr std::size_t kSampled = 24;

// Runs `count` configurations of every small problem of every kernel that `rules` allow. The next problem's are
// compiled meanwhile.
void check_sample(Rules rules, std::size_t count, std::uint64_t seed) {
  std::vector<std::pair<const Kernel*, Problem>> cases;
  for (const Kernel* kernel : all_kernels()) {
    for (const Problem& problem : small_problems(*kernel)) cases.emplace_back(kernel, problem);
  }
  const auto begin = [&](std::size_t i) {
    return i < cases.size() ? begin_sample(cases[i].first, cases[i].second, rules, count, seed) : Sample();
  };
  SampleCounts counts;
  Sample begun = begin(0);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(begun.problem.text());
    REQUIRE(!begun.configs.empty());
    gpu().open(*begun.kernel, begun.problem, kSeed);
    Sample next = begin(i + 1);
    run_sample(begun, counts);
    begun = std::move(next);
  }
  MESSAGE(counts.ran << " configurations ran, " << counts.refused << " were pruned");
  CHECK(counts.ran > counts.refused);
}

}  // namespace

// Needs no GPU.
TEST_CASE("the sample of what is legal on Hopper has clusters that route in rounds") {
  const Kernel& router = find_kernel("router");
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  int in_rounds = 0;
  for (const Problem& problem : small_problems(router)) {
    if (problem["tokens"] <= 256) continue;  // the tokens of a round (templates/router/cluster_board.cuh)
    for (const Config& config : sample(legal_space(router, problem, limits, Rules::all), kSampled, kSeed))
      in_rounds += config.is("schedule", "cluster");
  }
  CHECK(in_rounds >= 4);
}

TEST_CASE("the sample of what is legal on Hopper has latents in spans, by pairs of blocks too") {
  const Kernel& latents = find_kernel("mla_decode");
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  int alone = 0, paired = 0;
  for (const Problem& problem : small_problems(latents)) {
    for (const Config& config : sample(legal_space(latents, problem, limits, Rules::all), kSampled, kSeed))
      if (config.is("SCHEDULE", "spans")) ++(config.at("PAIR").number == 2 ? paired : alone);
  }
  CHECK(alone >= 4);
  CHECK(paired >= 4);
}

TEST_CASE("a sample of every kernel's space is right on every small problem") {
  if (no_gpu()) return;
  check_sample(Rules::all, sample_size(kSampled), kSeed);
}

// A runtime launches a winner at shapes for which a search would not have tried it. Few of a problem: what guesses
// leave out compiles long and runs slowly.
TEST_CASE("configurations that guesses at speed leave out are right too") {
  if (no_gpu()) return;
  check_sample(Rules::must, sample_size(kSampled) / 6 + 1, kSeed + 1);
}

}  // namespace moetune
