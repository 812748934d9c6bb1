// The space of prefill_attention, its defaults, and the plans of its configurations.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "kernels/prefill_attention/call.h"
#include "kernels/prefill_attention/problem.h"
#include "tests/kernels/prefill_attention/fixture.h"
#include "tests/sanitized.h"

namespace moetune::prefill_attention_space_test {
using namespace prefill_attention_tests;

namespace {

// Shapes that reach every branch of planning.
const std::vector<std::string> kShapes = {
    "",
    "batch=16,q_heads=16,kv_heads=16,seqlen_q=1024,seqlen_kv=1024",
    "batch=4,q_heads=64,head_dim=64",
    "seqlen_q=512,seqlen_kv=512",
    "seqlen_q=128,seqlen_kv=32768",
    "batch=8,seqlen_q=16,seqlen_kv=3000,page=16,lengths=ragged",
    "batch=5,q_heads=6,kv_heads=2,seqlen_q=200,seqlen_kv=900,page=64,lengths=ragged,window=100,layout=hnd",
    "q_heads=4,kv_heads=4,head_dim=256,seqlen_q=700,seqlen_kv=700,page=128,causal=0",
    "q_heads=1,kv_heads=1,seqlen_q=1,seqlen_kv=1",
    "batch=3,q_heads=6,kv_heads=2,head_dim=96,seqlen_q=200,seqlen_kv=900,page=32,lengths=ragged,kv_dtype=e4m3",
    "q_heads=8,kv_heads=2,head_dim=80,seqlen_q=500,seqlen_kv=500,kv_dtype=e4m3,q_dtype=e4m3",
    "q_heads=8,kv_heads=2,head_dim=192,seqlen_q=500,seqlen_kv=500,page=64",
};

template <typename T>
T argument(const Launch& launch, const std::string& name) {
  for (const Argument& each : launch.arguments) {
    if (each.name.text() == name) return std::get<T>(each.value);
  }
  throw std::out_of_range("no argument " + name);
}

// `base` with some parameters changed.
Config with(const Problem& of, const DeviceLimits& limits, const Config& base, const std::string& changes) {
  const Config wanted = space().parse_config(changes, &base);
  REQUIRE(space().why_illegal(wanted, expression_environment(of, limits), Rules::must) == "");
  return wanted;
}

Config with(const Problem& of, const DeviceLimits& limits, const std::string& changes) {
  return with(of, limits, space().default_config(expression_environment(of, limits)).value(), changes);
}

// The tiles of full sequences in the order in which templates/prefill_attention/schedule.cuh numbers them: sequence, KV
// head, tile of that head, block of rows.
using TileOrder = std::vector<std::array<std::int64_t, 4>>;

TileOrder tile_order(const PrefillShape& shape, std::int64_t head_tiles, std::int64_t blocks, std::int64_t section) {
  const std::int64_t pairs = shape.batch * shape.kv_heads;
  const std::int64_t together = section == 0 ? shape.kv_heads : section;
  TileOrder order;
  for (std::int64_t first = 0; first < pairs; first += together) {
    const std::int64_t end = std::min(first + together, pairs);
    for (std::int64_t block = blocks; block-- > 0;) {
      for (std::int64_t pair = first; pair < end; ++pair) {
        for (std::int64_t tile = 0; tile < head_tiles; ++tile)
          order.push_back({pair / shape.kv_heads, pair % shape.kv_heads, tile, block});
      }
    }
  }
  return order;
}

// No two legal configurations of a problem with full lengths launch the same code over the same tiles in the same
// order. Looks at one of every `step`.
std::size_t check_work_differs(const Problem& of, const DeviceLimits& limits, std::size_t step) {
  CAPTURE(of.text());
  const PrefillShape shape(of);
  const LegalSpace legal = space().enumerate(expression_environment(of, limits));
  std::map<TileOrder, std::int32_t> orders;
  std::map<std::array<std::int64_t, 3>, std::int32_t> numbers;  // of orders, by what they follow from
  std::set<std::string> seen;
  for (std::size_t id = 0; id < legal.size(); id += step) {
    const Config config = legal.config(static_cast<ConfigId>(id));
    Plan plan = kernel().plan(config, of, limits);
    auto& arguments = plan.launches[0].arguments;
    const auto named = [&](const char* name) -> std::int32_t& {
      const auto found = std::find_if(arguments.begin(), arguments.end(),
                                      [&](const Argument& each) { return each.name.text() == name; });
      return std::get<std::int32_t>(found->value);
    };
    const std::int64_t head_tiles = config.number("packed") == 1 ? 1 : shape.group();
    std::int32_t& section = named("section");
    const auto [number, added] = numbers.try_emplace({head_tiles, named("blocks"), section}, 0);
    if (added) {
      const auto next = static_cast<std::int32_t>(orders.size());
      number->second = orders.try_emplace(tile_order(shape, head_tiles, named("blocks"), section), next).first->second;
    }
    section = number->second;
    CHECK_MESSAGE(seen.insert(digest(nlohmann::json(plan).dump())).second, config.text());
  }
  return seen.size();
}

}  // namespace

TEST_CASE("no two legal configurations of a prompt do the same work in the same order") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  CHECK(limits.sm_count == 132);
  const std::size_t step = kSanitized ? 101 : 1;  // where all take six minutes
  CHECK(check_work_differs(problem(""), limits, step) >= 3000 / step);
  const Problem few_rows = problem("batch=3,q_heads=16,kv_heads=4,seqlen_q=150,seqlen_kv=6000");
  CHECK(check_work_differs(few_rows, limits, step) >= 1000 / step);
}

TEST_CASE("a typical prompt has thousands of legal configurations, and no two launch alike") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text :
       {"", "batch=16,q_heads=16,kv_heads=16,seqlen_q=1024,seqlen_kv=1024", "batch=4,q_heads=64,head_dim=64"}) {
    CAPTURE(text);
    CHECK(space().count(expression_environment(problem(text), limits), Rules::all) >= 3000);
  }
  check_launches_differ(problem("q_heads=8,kv_heads=2,seqlen_q=300,seqlen_kv=700"), 1000);
  check_launches_differ(problem("batch=3,q_heads=4,kv_heads=1,seqlen_q=20,seqlen_kv=2000,page=64"), 300);
}

TEST_CASE("extents are bounded for as many splits as the space has") {
  const auto& parameters = space().parameters();
  const auto splits = std::find_if(parameters.begin(), parameters.end(),
                                   [](const Parameter& parameter) { return parameter.name == "splits"; });
  REQUIRE(splits != parameters.end());
  CHECK(splits->values.back().number == kMostPrefillSplits);
}

TEST_CASE("every shape has a default on every architecture, which fits the device") {
  for (const std::string& text : kShapes) {
    for (const int head_dim : {64, 80, 96, 112, 128, 192, 256}) {
      Problem of = problem(text);
      of.dims.set("head_dim", Value::integer(head_dim));
      for (const std::string& architecture : known_architectures()) {
        CAPTURE(of.text());
        CAPTURE(architecture);
        const DeviceLimits limits = limits_of_architecture(architecture);
        const Assignment environment = expression_environment(of, limits);
        const auto config = space().default_config(environment);
        REQUIRE(config);
        CHECK(space().why_illegal(*config, environment) == "");
        CHECK(config->is("body", limits.compute_capability == 90 ? "wgmma" : "mma"));
        const Plan plan = kernel().plan(*config, of, limits);
        CHECK(plan.launches[0].dynamic_shared <= limits.shared_per_block);
        CHECK(plan.launches[0].programmatic_dependent == (limits.compute_capability >= 90));
      }
    }
  }
}

TEST_CASE("the default of paged KV has heads packed where ragged sequences or a window leave blocks empty") {
  const auto default_of = [](const std::string& text) {
    return space().default_config(expression_environment(problem(text), limits_of_architecture("sm_90a"))).value();
  };
  const auto has = [&](const std::string& text, const std::string& values) {
    const Config config = default_of(text);
    CAPTURE(text);
    CAPTURE(config.text());
    CHECK(space().parse_config(values, &config).text() == config.text());
  };
  const std::string qwen = "q_heads=32,kv_heads=4,", gpt = "q_heads=64,kv_heads=8,head_dim=64,";
  const std::string ragged = ",lengths=ragged", four = "batch=4,seqlen_q=293,seqlen_kv=4171,";
  has(qwen + four + "page=64" + ragged, "warpgroups=2,tile=128,packed=1,ping_pong=0,schedule=grid,splits=1");
  has(qwen + four + "page=16" + ragged, "warpgroups=2,tile=176,packed=1,ping_pong=0,schedule=grid,splits=1");
  has(qwen + "batch=4,seqlen_q=128,seqlen_kv=11638,page=64" + ragged, "packed=1,schedule=grid,splits=4");
  has(qwen + "batch=4,seqlen_q=128,seqlen_kv=900,page=64" + ragged, "packed=1,schedule=grid,splits=1");
  has(gpt + four + "page=64", "warpgroups=3,tile=128,stages=3,packed=1,schedule=dynamic,section=32");
  has(gpt + four + "page=64" + ragged, "warpgroups=3,tile=128,stages=3,packed=1,schedule=dynamic,section=0");
  has(gpt + four + "page=16,window=128" + ragged, "warpgroups=3,tile=64,packed=1,schedule=static,section=0");
  has(gpt + four + "page=64,window=128", "warpgroups=3,tile=64,query_stages=2,packed=1,schedule=static");
  // As many blocks as SMs at most: all run at once.
  has(gpt + "batch=2,seqlen_q=128,seqlen_kv=4096,page=64,window=128", "tile=64,packed=1,schedule=grid");
  has(gpt + "batch=2,seqlen_q=128,seqlen_kv=4096,page=64" + ragged, "tile=128,packed=1,schedule=grid");
  // Pages and two waves of blocks at most; small pages; many heads to a page.
  has(gpt + "batch=1,seqlen_q=194,seqlen_kv=2123,page=64", "warpgroups=2,tile=128,packed=1,lag=0,schedule=grid");
  has(gpt + "batch=4,seqlen_q=128,seqlen_kv=4171,page=64", "query_stages=2,packed=1,lag=0,schedule=static");
  has(qwen + "batch=3,seqlen_q=293,seqlen_kv=4171,page=64", "tile=128,packed=1,ping_pong=0,schedule=grid");
  has(qwen + "batch=3,seqlen_q=2123,seqlen_kv=4171,page=16",
      "warpgroups=3,tile=80,packed=1,overlap=0,schedule=dynamic");
  has("q_heads=64,kv_heads=4,batch=3,seqlen_q=293,seqlen_kv=8267,page=64", "tile=192,packed=1,lag=0,schedule=static");
  // Parts of fewer than 700 tokens are not worth their combine.
  has(qwen + "batch=2,seqlen_q=128,seqlen_kv=750,page=64", "packed=0,schedule=grid,splits=1");
  // Contiguous KV, and e4m3: the same of a few hundred tokens.
  has(gpt + four + "page=0,window=128", "warpgroups=3,tile=64,query_stages=2,packed=1,schedule=static");
  has(qwen + four + "page=0" + ragged, "warpgroups=3,tile=80,packed=1,schedule=grid,splits=1");
  has(qwen + four + "page=64,kv_dtype=e4m3" + ragged, "warpgroups=3,tile=64,stages=3,packed=1,overlap=0");
  has(gpt + "batch=16,seqlen_q=165,seqlen_kv=512,page=0", "warpgroups=2,tile=112,query_stages=2,packed=1");
  has(qwen + "batch=1,seqlen_q=165,seqlen_kv=512,page=0", "warpgroups=1,packed=1,splits=1");
  // What was not measured keeps the default of contiguous KV.
  for (const std::string& text :
       {qwen + "batch=4,seqlen_q=640,seqlen_kv=4171,page=0", qwen + four + "page=64",
        gpt + "batch=4,seqlen_q=256,seqlen_kv=4171,page=0", qwen + four + "page=64,window=1024" + ragged,
        qwen + "batch=64,seqlen_q=4096,seqlen_kv=4171,page=64" + ragged, gpt + four + "page=64,causal=0"})
    has(text, "packed=0");
}

TEST_CASE("by default few new tokens share rows among heads, however many sequences, and a window is not split") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* const heads : {"q_heads=32,kv_heads=4", "q_heads=32,kv_heads=8", "q_heads=64,kv_heads=8,head_dim=64",
                                  "q_heads=16,kv_heads=4,head_dim=256"}) {
    for (const char* const more :
         {"page=0", "page=16", "page=64", "page=32", "page=64,dtype=fp16,lengths=ragged", "page=64,kv_dtype=e4m3",
          "page=128,window=128", "page=0,window=128,lengths=ragged"}) {
      for (const int batch : {1, 4, 16, 64, 256}) {
        for (const int tokens : {1, 4, 13, 48}) {
          const Problem of =
              problem(std::string(heads) + "," + more + ",seqlen_kv=2123,batch=" + std::to_string(batch) +
                      ",seqlen_q=" + std::to_string(tokens));
          CAPTURE(of.text());
          const Config config = space().default_config(expression_environment(of, limits)).value();
          CAPTURE(config.text());
          CHECK(config.number("packed") == 1);
          if (of["window"] > 0) CHECK(config.number("splits") == 1);
          if (of["window"] == 0 && batch == 1) CHECK(config.number("splits") > 1);
          const std::int64_t rows = tokens * of["q_heads"] / of["kv_heads"];
          CHECK(64 * (config.number("warpgroups") - 1) < rows);
        }
      }
    }
  }
}

TEST_CASE("the grid has a block for every tile of rows, and a persistent one at most one an SM") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=3,q_heads=12,kv_heads=3,seqlen_q=300,seqlen_kv=900");
  const auto blocks = [&](const std::string& changes) {
    const Config config = with(of, limits, "body=wgmma,tile=64,overlap=0,splits=1,section=0," + changes);
    const Plan plan = kernel().plan(config, of, limits);
    CHECK(argument<std::int32_t>(plan.launches[0], "batch") == 3);
    CHECK(argument<std::int32_t>(plan.launches[0], "kv_heads") == 3);
    CHECK(plan.launches[0].block[0] == 128 * (config.number("warpgroups") + 1));
    return std::pair(plan.launches[0].grid[0], argument<std::int32_t>(plan.launches[0], "blocks"));
  };
  CHECK(blocks("warpgroups=2,packed=0,ping_pong=0,schedule=grid") == std::pair(3u * 12 * 3, 3));
  CHECK(blocks("warpgroups=1,packed=0,ping_pong=0,schedule=grid") == std::pair(3u * 12 * 5, 5));
  CHECK(blocks("warpgroups=3,packed=1,ping_pong=0,schedule=grid") == std::pair(3u * 3 * 7, 7));
  CHECK(blocks("warpgroups=1,packed=0,ping_pong=0,schedule=static") ==
        std::pair(static_cast<std::uint32_t>(limits.sm_count), 5));
}

TEST_CASE("half of a last tile is computed alone where it is a wgmma, and offered for short causal rows") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const auto least_trimmed_tile = [&](const std::string& text, Rules rules) {
    const Problem of = problem(text);
    const LegalSpace legal = space().enumerate(expression_environment(of, limits), rules);
    std::int64_t least = 0;
    for (ConfigId id = 0; id < legal.size(); id += kSanitized ? 17 : 1) {
      const Config config = legal.config(id);
      if (config.number("trim") == 0) continue;
      CHECK(config.is("body", "wgmma"));
      least = least == 0 ? config.number("tile") : std::min(least, config.number("tile"));
    }
    return least;
  };
  const std::string heads = "q_heads=2,kv_heads=2,head_dim=128,", prompt = heads + "seqlen_q=1024,seqlen_kv=1024";
  CHECK(least_trimmed_tile(prompt, Rules::must) == 128);
  CHECK(least_trimmed_tile(prompt, Rules::all) == 128);
  CHECK(least_trimmed_tile(prompt + ",causal=0", Rules::must) == 128);
  CHECK(least_trimmed_tile(prompt + ",causal=0", Rules::all) == 0);
  CHECK(least_trimmed_tile(heads + "seqlen_q=4096,seqlen_kv=4096", Rules::all) == 0);
  CHECK(least_trimmed_tile("q_heads=2,kv_heads=2,head_dim=256,seqlen_q=1024,seqlen_kv=1024", Rules::must) == 0);

  const Problem of = problem(prompt);
  for (const char* const trim : {"0", "1"}) {
    const Config config = with(of, limits, std::string("tile=128,trim=") + trim);
    const auto& defines = kernel().plan(config, of, limits).unit.defines;
    CHECK(std::count(defines.begin(), defines.end(), std::pair<std::string, std::string>("TRIM", trim)) == 1);
  }
}

TEST_CASE("what a configuration needs is in the plan: counters, partial results, tensor maps") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=2,q_heads=8,kv_heads=2,seqlen_q=100,seqlen_kv=9000,page=16,lse=natural");
  const Config plain = with(of, limits, "body=wgmma,warpgroups=2,tile=128,packed=0,schedule=grid,splits=1,section=0");
  const Plan one = kernel().plan(plain, of, limits);
  CHECK(one.scratch.empty());
  CHECK(one.launches.size() == 1);
  const auto k_map = argument<TensorMap>(one.launches[0], "k_map");
  const PrefillCall call(kernel().default_call(of));
  CHECK(k_map.dims == decltype(k_map.dims){64, 16, 2, 2, static_cast<std::uint64_t>(call.blocks)});
  CHECK(k_map.box == decltype(k_map.box){64, 16, 1, 1, 1});
  CHECK(argument<Pointer>(one.launches[0], "kv_offsets").buffer.empty());
  CHECK_FALSE(argument<Pointer>(one.launches[0], "page_table").buffer.empty());
  CHECK_FALSE(argument<Pointer>(one.launches[0], "lse").buffer.empty());
  const auto q_map = argument<TensorMap>(one.launches[0], "q_map");
  CHECK(q_map.dims == decltype(q_map.dims){64, 200, 2, 8, 1});
  CHECK(q_map.box == decltype(q_map.box){64, 128, 1, 1, 1});

  const Plan packed = kernel().plan(with(of, limits, plain, "packed=1"), of, limits);
  const auto heads = argument<TensorMap>(packed.launches[0], "q_map");
  CHECK(heads.dims == decltype(heads.dims){64, 4, 200, 2, 2});
  CHECK(heads.strides == decltype(heads.strides){256, 2048, 128, 1024});
  CHECK(heads.box == decltype(heads.box){64, 4, 32, 1, 1});

  const Plan dynamic = kernel().plan(with(of, limits, plain, "schedule=dynamic"), of, limits);
  REQUIRE(dynamic.scratch.size() == 1);
  CHECK(dynamic.scratch[0].zeroed);
  CHECK(dynamic.scratch[0].bytes == 8);
  CHECK_FALSE(argument<Pointer>(dynamic.launches[0], "counter").buffer.empty());
}

TEST_CASE("tensor maps keep to what the driver takes, whatever the configuration") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (std::size_t shape = 0; shape < kShapes.size(); shape += kSanitized ? 5 : 1) {
    const Problem of = problem(kShapes[shape]);
    CAPTURE(of.text());
    const LegalSpace legal = space().enumerate(expression_environment(of, limits), Rules::must);
    for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / 300)) {
      const Config config = legal.config(id);
      const Plan plan = kernel().plan(config, of, limits);
      for (const Argument& each : plan.launches[0].arguments) {
        const auto* map = std::get_if<TensorMap>(&each.value);
        if (map == nullptr) continue;
        CHECK(config.is("body", "wgmma"));
        for (const std::uint64_t size : map->dims) CHECK(size > 0);
        for (const std::uint64_t stride : map->strides) CHECK((stride > 0 && stride % 16 == 0));
        for (const std::uint32_t size : map->box) CHECK((size > 0 && size <= 256));
      }
    }
  }
}

}  // namespace moetune::prefill_attention_space_test
