// Blocks that start before the previous kernel has ended (those of decode_attention ask L2 for tiles then), behind one
// that lets them start early and only then writes what they read: lengths, pages and keys.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/gpu/gpu.h"

namespace moetune {
namespace {

// spoil keeps what is right and writes what is not; restore lets the next kernel start, takes its time, and
// puts back what is right.
constexpr const char* kWriters = R"cuda(
struct Words {
  i32* values;
  i32* kept;
  i64 count;
};

__device__ __forceinline__ i32 spoiled_length(i32 length, int i, int rubbish) {
  if (!rubbish) return length / 2;
  return i % 4 == 0 ? 0 : i % 4 == 1 ? -7 : i % 4 == 2 ? 0x7fffffff : length / 2;
}

__device__ __forceinline__ i32 spoiled_page(i32 page, int i) {
  return i % 4 == 0 ? -1 : i % 4 == 1 ? 0x7fffffff : i % 4 == 2 ? page ^ 1 : 1 << 20;
}

__device__ __forceinline__ void put_back(const Words& words) {
  for (int i = threadIdx.x; i < words.count; i += blockDim.x) words.values[i] = words.kept[i];
}

extern "C" __global__ void spoil(i32* length, i32* kept_lengths, i64 length_count, i32* page, i32* kept_pages,
                                 i64 page_count, i32* key, i32* kept_keys, i64 key_count, int rubbish) {
  const Words lengths = {length, kept_lengths, length_count}, pages = {page, kept_pages, page_count},
              keys = {key, kept_keys, key_count};
  for (int i = threadIdx.x; i < lengths.count; i += blockDim.x) {
    lengths.kept[i] = lengths.values[i];
    lengths.values[i] = spoiled_length(lengths.kept[i], i, rubbish);
  }
  for (int i = threadIdx.x; i < pages.count; i += blockDim.x) {
    pages.kept[i] = pages.values[i];
    pages.values[i] = rubbish ? spoiled_page(pages.kept[i], i) : pages.kept[i];
  }
  for (int i = threadIdx.x; i < keys.count; i += blockDim.x) {
    keys.kept[i] = keys.values[i];
    keys.values[i] = 0x7fff7fff;
  }
}

extern "C" __global__ void restore(i32* length, i32* kept_lengths, i64 length_count, i32* page, i32* kept_pages,
                                   i64 page_count, i32* key, i32* kept_keys, i64 key_count) {
  allow_dependent_launch();
  take_a_while();
  put_back({length, kept_lengths, length_count});
  put_back({page, kept_pages, page_count});
  put_back({key, kept_keys, key_count});
}
)cuda";

constexpr std::int64_t kSpoiledKeys = 16384;  // 32-bit words

struct Case {
  const char* kernel;
  const char* lengths;  // which of the kernel's buffers of lengths or offsets is spoiled
  const char* problem;
  const char* config;
};

constexpr const char* kDecode = "decode_attention";
constexpr const char* kPrefill = "prefill_attention";

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=1000",
       "math=mma16,row_tiles=1,splits=1,combine=none,ahead=4"},
      {kPrefill, "q_offsets", "batch=3,q_heads=8,kv_heads=2,seqlen_q=700,seqlen_kv=700",
       "body=wgmma,warpgroups=2,tile=128,overlap=1,ping_pong=1,schedule=dynamic,splits=1"},
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=1000,lengths=ragged",
       "math=swap,row_tiles=1,splits=2,combine=cluster,ahead=2"},
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=2000,lengths=ragged,page=64",
       "math=mma16,row_tiles=1,splits=2,combine=kernel,ahead=4"},
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=700,lengths=ragged,page=16",
       "math=mma16,row_tiles=1,splits=1,combine=none,ahead=2"},
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=900,lengths=ragged,page=64,window=200,q_len=2",
       "math=mma16,row_tiles=1,splits=1,combine=none,ahead=2"},
      {kDecode, "lengths", "batch=40,q_heads=16,kv_heads=2,context=900,lengths=ragged,kv_dtype=e4m3",
       "math=mma16,row_tiles=1,splits=2,combine=last_cta,ahead=1"},
      {kPrefill, "kv_offsets", "batch=3,q_heads=8,kv_heads=2,seqlen_q=100,seqlen_kv=900",
       "body=wgmma,warpgroups=2,tile=64,overlap=1,ping_pong=0,schedule=grid,splits=3"},
      {kPrefill, "kv_lengths", "batch=5,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=900,lengths=ragged,page=16",
       "body=wgmma,warpgroups=1,tile=128,overlap=1,ping_pong=0,schedule=static,splits=1"},
      {kPrefill, "kv_lengths",
       "batch=5,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=900,lengths=ragged,page=64,kv_dtype=e4m3",
       "body=wgmma,warpgroups=2,tile=64,overlap=1,ping_pong=0,schedule=dynamic,splits=1"},
      {kPrefill, "q_offsets", "batch=5,q_heads=8,kv_heads=2,seqlen_q=200,seqlen_kv=900,lengths=ragged,page=16",
       "body=mma,warpgroups=2,tile=64,overlap=0,ping_pong=0,schedule=grid,splits=2"},
  };
  return all;
}

std::int64_t elements_of(const std::vector<Buffer>& buffers, const std::string& name) {
  for (const Buffer& buffer : buffers) {
    if (buffer.name == name) return buffer.elements;
  }
  return 0;
}

// The attention's plan behind the two writers.
Plan behind_writers(Plan plan, const Case& test, const std::vector<Buffer>& buffers, bool rubbish) {
  decltype(Launch::arguments) arguments;
  const auto add = [&](const std::string& name, std::int64_t count) {
    plan.scratch.push_back({"kept_" + name, std::max<std::int64_t>(count, 1) * 4});
    const bool exists = count > 0;
    arguments.push_back({name, exists ? Pointer{name} : Pointer{}});
    arguments.push_back({"kept_" + name, Pointer{"kept_" + name}});
    arguments.push_back({"count_" + name, count});
  };
  REQUIRE(elements_of(buffers, test.lengths) > 0);
  add(test.lengths, elements_of(buffers, test.lengths));
  add("page_table", elements_of(buffers, "page_table"));
  add("k", kSpoiledKeys);
  Launch restore{{.entry = "restore", .block = {1024, 1, 1}}, arguments};
  Launch spoil{{.entry = "spoil", .block = {1024, 1, 1}}, arguments};
  spoil.arguments.push_back({"rubbish", std::int32_t{rubbish}});
  const auto attention = plan.launches;
  plan.launches = {spoil, restore};
  for (const Launch& launch : attention) plan.launches.push_back(launch);
  return plan;
}

BuildPtr compile(const CompileUnit& unit, const std::string& architecture, bool waits) {
  Compiler::Options options;
  options.architecture = architecture;
  options.reader = [=, source = unit.source](const std::string& path) {
    std::optional<std::string> text = find_resource(path);
    if (path == source) *text += std::string(kTakeAWhile) + kWriters;
    const std::string wait = "griddepcontrol.wait;";
    if (path == "templates/common/dependent_launch.cuh" && !waits) text->replace(text->rfind(wait), wait.size(), "");
    return text;
  };
  return std::make_shared<const Build>(Compiler(options).compile(unit));
}

Problem problem_of(const Case& test) { return find_kernel(test.kernel).parse(test.problem); }

// What the configurations of a kernel have in common.
std::string common_config(const Case& test) {
  if (test.kernel == std::string(kPrefill)) return "stages=2,query_stages=1,packed=0,lag=8,poly=0,section=0,";
  return "body=tma,schedule=grid,residents=0,tile=64,warps=4,stages=2,producers=1,query=registers,l2=evict_first,";
}

// Which must be able to run on a device of these limits.
Config config_of(const Case& test, const DeviceLimits& limits) {
  const std::string file = std::string("spaces/") + test.kernel + ".json";
  const Space space = Space::parse(read_resource(file), file);
  const Assignment environment = expression_environment(problem_of(test), limits);
  const std::optional<Config> base = space.default_config(environment);
  REQUIRE(base);
  const Config config = space.parse_config(common_config(test) + test.config, &*base);
  CAPTURE(test.problem);
  CAPTURE(config.text());
  REQUIRE(space.why_illegal(config, environment, Rules::must) == "");
  return config;
}

Plan plan_of(const Case& test, const DeviceLimits& limits, bool rubbish) {
  const Kernel& kernel = find_kernel(test.kernel);
  const Problem problem = problem_of(test);
  return behind_writers(kernel.plan(config_of(test, limits), problem, limits), test, kernel.buffers(problem, 11),
                        rubbish);
}

TrialResult run(const Case& test, bool rubbish, bool waits) {
  const DeviceLimits limits = gpu().info().limits;
  gpu().open(find_kernel(test.kernel), problem_of(test), 11);
  const Plan plan = plan_of(test, limits, rubbish);
  const BuildPtr build = compile(plan.unit, gpu().info().architecture, waits);
  REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
  return gpu().run({config_of(test, limits), plan, build}, one_sample());
}

}  // namespace

// Needs NVRTC alone.
TEST_CASE("what asks ahead behind the writers is legal on Hopper and compiles") {
  for (const Case& test : cases()) {
    CAPTURE(test.config);
    const BuildPtr build = compile(plan_of(test, limits_of_architecture("sm_90a"), true).unit, "sm_90a", true);
    CHECK_MESSAGE(build->outcome == Outcome::ok, build->message);
  }
}

TEST_CASE("lengths, pages and keys that the previous kernel still writes are not used before it has ended") {
  if (no_gpu()) return;
  if (gpu().info().limits.compute_capability < 90) return;
  for (const Case& test : cases()) {
    if (gpu().info().limits.compute_capability != 90 && test.kernel == std::string(kPrefill)) continue;
    CAPTURE(test.problem);
    CAPTURE(test.config);
    const TrialResult result = run(test, true, true);
    CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
  }
}

TEST_CASE("a kernel that does not wait for the previous one is rejected behind the same writers") {
  if (no_gpu()) return;
  if (gpu().info().limits.compute_capability < 90) return;
  for (const Case& test : {cases()[0], cases()[1]}) {  // of each kernel
    if (gpu().info().limits.compute_capability != 90 && test.kernel == std::string(kPrefill)) continue;
    CAPTURE(test.kernel);
    CHECK(run(test, false, false).outcome == Outcome::wrong_result);
    CHECK(run(test, false, true).outcome == Outcome::ok);
  }
}

}  // namespace moetune
