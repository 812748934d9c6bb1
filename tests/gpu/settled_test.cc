// decode_attention with kv_settled=1 behind a kernel that lets it start early and only then, at its end, writes the
// queries and the newest tokens: what is written there counts, and all else is read before.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/decode_attention/call.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/gpu/gpu.h"

namespace moetune::settled_test {
namespace {

// Takes the elements away, NaN in their place; or, once the next kernel may start and a while later, puts them back.
constexpr const char* kExchange = R"cuda(
__device__ __forceinline__ void exchange_element(u16* value, u16* kept, int put_back) {
  if (put_back) {
    *value = *kept;
  } else {
    *kept = *value;
    *value = 0x7fff;
  }
}

extern "C" __global__ void exchange_newest(u16* q, u16* k, u16* v, const i32* lengths, const i32* page_table,
                                           u16* kept_q, u16* kept_k, u16* kept_v, i64 q_elements,
                                           i64 block_stride, i64 head_stride, i64 token_stride,
                                           i64 page_table_stride, int batch, int kv_heads, int late,
                                           int put_back) {
  if (put_back) {
    allow_dependent_launch();
    take_a_while();
  }
  for (i64 i = threadIdx.x; i < q_elements; i += blockDim.x) exchange_element(q + i, kept_q + i, put_back);
  for (i64 i = threadIdx.x; i < i64(batch) * late * kv_heads * HEAD_DIM; i += blockDim.x) {
    const i64 row = i / HEAD_DIM;
    const int head = row % kv_heads, sequence = row / kv_heads / late;
    const int token = lengths[sequence] - 1 - static_cast<int>(row / kv_heads % late);
    if (token < 0) continue;
    i64 block = sequence, place = token;
    if (PAGE > 0) {
      block = page_table[sequence * page_table_stride + token / max_of(1, PAGE)];
      place = token % max_of(1, PAGE);
    }
    const i64 at = block * block_stride + head * head_stride + place * token_stride + i % HEAD_DIM;
    exchange_element(k + at, kept_k + i, put_back);
    exchange_element(v + at, kept_v + i, put_back);
  }
}
)cuda";

struct Case {
  const char* problem;
  const char* config;  // but for what kCommon has
};

constexpr const char* kCommon = "residents=0,tile=64,warps=4,stages=2,row_tiles=1,l2=evict_first,ahead=0,";
constexpr const char* kGrid = "body=tma,schedule=grid,producers=1,query=registers,";

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"batch=8,q_heads=16,kv_heads=2,context=1000,page=16", "math=mma16,splits=4,combine=cluster"},
      {"batch=40,q_heads=16,kv_heads=2,context=900,lengths=ragged,page=64,q_len=2",
       "math=swap,splits=2,combine=kernel"},
      {"batch=8,q_heads=16,kv_heads=2,context=1000,lengths=ragged", "math=mma16,splits=1,combine=none"},
      {"batch=40,q_heads=16,kv_heads=2,context=2000,lengths=ragged,page=64",
       "math=mma16,schedule=persistent,residents=1,splits=1,combine=last_cta"},
      {"batch=40,q_heads=16,kv_heads=2,context=2000,lengths=ragged",
       "math=mma16,schedule=persistent,residents=1,producers=2,splits=1,combine=kernel"},
      {"batch=8,q_heads=16,kv_heads=2,context=1000,page=16",
       "body=mma,math=mma16,producers=0,query=shared,splits=4,combine=cluster"},
      {"batch=40,q_heads=16,kv_heads=2,context=900,lengths=ragged,q_len=2",
       "body=mma,math=mma16,producers=0,query=shared,splits=2,combine=last_cta"},
  };
  return all;
}

// The settings of `changes`, and of `usual` those that it lacks.
std::string merged(const std::string& usual, const std::string& changes) {
  std::string text = changes;
  for (std::size_t at = 0; at < usual.size();) {
    const std::size_t end = usual.find(',', at), equals = usual.find('=', at);
    if (("," + changes).find("," + usual.substr(at, equals + 1 - at)) == std::string::npos)
      text += "," + usual.substr(at, end - at);
    at = end + 1;
  }
  return text;
}

struct Behind {
  Problem problem;
  Config config;
  Plan plan;
};

// The attention behind two exchanges of the newest `late` tokens (the problem's q_len if 0).
Behind behind_exchanges(const Case& test, const DeviceLimits& limits, std::int64_t late) {
  const Kernel& kernel = find_kernel("decode_attention");
  Behind made;
  made.problem = kernel.parse(test.problem);
  const Space& space = shared_space(kernel.name());
  made.config = space.parse_config(merged(std::string(kGrid) + kCommon, test.config), nullptr);
  CAPTURE(made.config.text());
  REQUIRE(space.why_illegal(made.config, expression_environment(made.problem, limits), Rules::must) == "");
  const DecodeShape shape(made.problem);
  DecodeCall call(shape);
  call.kv_settled = 1;
  Plan& plan = made.plan = kernel.plan(made.config, made.problem, call.call(), limits);
  const std::int64_t tokens = late == 0 ? shape.q_len : late;
  const std::int64_t q_elements = call.row_elements(call.q, shape);
  const std::int64_t kept = shape.batch * tokens * shape.kv_heads * shape.head_dim;
  plan.scratch.push_back({"kept_q", q_elements * 2});
  for (const char* const name : {"kept_k", "kept_v"}) plan.scratch.push_back({name, kept * 2});
  Launch launch{{.entry = "exchange_newest", .block = {1024, 1, 1}}, {}};
  for (const char* const name : {"q", "k", "v", "lengths", "page_table", "kept_q", "kept_k", "kept_v"}) {
    const bool exists = shape.paged() || name != std::string("page_table");
    launch.arguments.push_back({name, exists ? Pointer{name} : Pointer{}});
  }
  launch.arguments.push_back({"q_elements", q_elements});
  launch.arguments.push_back({"block_stride", call.k.block});
  launch.arguments.push_back({"head_stride", call.k.head});
  launch.arguments.push_back({"token_stride", call.k.token});
  launch.arguments.push_back({"page_table_stride", call.page_table_stride});
  launch.arguments.push_back({"batch", static_cast<std::int32_t>(shape.batch)});
  launch.arguments.push_back({"kv_heads", static_cast<std::int32_t>(shape.kv_heads)});
  launch.arguments.push_back({"late", static_cast<std::int32_t>(tokens)});
  launch.arguments.push_back({"put_back", std::int32_t{0}});
  const auto attention = plan.launches;
  plan.launches = {launch, launch};
  plan.launches[1].arguments.back().value = std::int32_t{1};
  for (const Launch& each : attention) plan.launches.push_back(each);
  return made;
}

BuildPtr compile(const CompileUnit& unit, const std::string& architecture) {
  Compiler::Options options;
  options.architecture = architecture;
  options.reader = [source = unit.source](const std::string& path) {
    std::optional<std::string> text = find_resource(path);
    if (path == source) *text += std::string(kTakeAWhile) + kExchange;
    return text;
  };
  return std::make_shared<const Build>(Compiler(options).compile(unit));
}

TrialResult run(const Case& test, std::int64_t late) {
  const Behind behind = behind_exchanges(test, gpu().info().limits, late);
  gpu().open(find_kernel("decode_attention"), behind.problem, 11);
  const BuildPtr build = compile(behind.plan.unit, gpu().info().architecture);
  REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
  return gpu().run({behind.config, behind.plan, build}, one_sample());
}

}  // namespace

// Needs NVRTC alone.
TEST_CASE("what reads settled KV behind the exchange is legal on Hopper and compiles") {
  for (const Case& test : cases()) {
    CAPTURE(test.config);
    const BuildPtr build = compile(behind_exchanges(test, limits_of_architecture("sm_90a"), 0).plan.unit, "sm_90a");
    CHECK_MESSAGE(build->outcome == Outcome::ok, build->message);
  }
}

TEST_CASE("queries and newest tokens that the previous kernel still writes are not read before it has ended") {
  if (no_gpu() || gpu().info().limits.compute_capability < 90) return;
  for (const Case& test : cases()) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    const TrialResult result = run(test, 0);
    CHECK_MESSAGE(result.outcome == Outcome::ok, result.message);
  }
}

TEST_CASE("where the previous kernel still writes older tokens too, every body has read them too early") {
  if (no_gpu() || gpu().info().limits.compute_capability < 90) return;
  for (const Case& test : cases()) {
    CAPTURE(test.problem);
    CAPTURE(test.config);
    CHECK(run(test, 2000).outcome == Outcome::wrong_result);
  }
}

}  // namespace moetune::settled_test
