// The space of decode_attention and the plans of its configurations.
#include "search/space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "tests/kernels/decode_attention/fixture.h"

namespace moetune::decode_attention_space_test {
using namespace decode_attention_tests;

namespace {

// Shapes that reach every branch of planning: groups of 1, 8, 12, 40 and 128, all head dims, pages and
// layouts, contexts shorter than a tile and not a multiple of one.
const std::vector<std::string>& grid() {
  static const std::vector<std::string> problems = {
      "",
      "batch=1,q_heads=32,kv_heads=8",
      "batch=16,q_heads=32,kv_heads=8,context=4096",
      "batch=1,q_heads=1,kv_heads=1,context=1",
      "batch=1,q_heads=8,kv_heads=8,head_dim=64,context=17,page=16",
      "batch=3,q_heads=24,kv_heads=2,context=1000,page=64,lengths=ragged,layout=nhd",
      "batch=2,q_heads=40,kv_heads=1,head_dim=256,context=515,page=128,lengths=ragged",
      "batch=1,q_heads=128,kv_heads=1,head_dim=64,context=131072,dtype=fp16",
      "batch=256,q_heads=64,kv_heads=4,context=2048,layout=nhd",
      "batch=5,q_heads=16,kv_heads=16,head_dim=256,context=333,lengths=ragged,dtype=fp16",
      "batch=64,q_heads=64,kv_heads=8,head_dim=64,context=8192,window=128,sinks=learned",
      "batch=3,q_heads=64,kv_heads=8,head_dim=64,context=2000,window=100,page=64,q_len=3,lse=natural",
      "batch=9,q_heads=32,kv_heads=4,context=1200,page=1,q_len=4,lengths=ragged,layout=nhd",
      "batch=1,q_heads=40,kv_heads=2,head_dim=256,context=4096,page=1,window=1",
      "batch=16,q_heads=32,kv_heads=8,context=4096,kv_dtype=e4m3",
      "batch=3,q_heads=64,kv_heads=8,head_dim=64,context=5000,kv_dtype=e4m3,kv_scale=head,page=16,q_len=2",
      "batch=2,q_heads=16,kv_heads=2,head_dim=256,context=1000,kv_dtype=e4m3,page=1,dtype=fp16",
      "batch=3,q_heads=12,kv_heads=2,head_dim=80,context=900,page=16,lengths=ragged",
      "batch=2,q_heads=32,kv_heads=8,head_dim=96,context=3000,kv_dtype=e4m3",
      "batch=4,q_heads=40,kv_heads=1,head_dim=112,context=700,page=64,lengths=ragged,q_len=2",
      "batch=2,q_heads=8,kv_heads=8,head_dim=192,context=2000,lengths=ragged",
  };
  return problems;
}

}  // namespace

TEST_CASE(
    "a typical shape has thousands of legal configurations of both bodies and of each math, and few enough "
    "builds to brute-force") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text : {"", "batch=16,q_heads=32,context=4096", "batch=1,q_heads=32"}) {
    const Problem of = problem(text);
    const LegalSpace legal = space().enumerate(expression_environment(of, limits));
    CHECK(legal.size() >= 2000);
    CHECK(legal.size() <= 40000);
    std::map<std::string, int> bodies, math;
    std::set<std::string> units;
    for (ConfigId id = 0; id < legal.size(); ++id) {
      const Config config = legal.config(id);
      ++bodies[config.at("body").text()];
      ++math[config.at("math").text()];
      std::string unit;
      for (const auto& [name, value] : kernel().plan(config, of, limits).unit.defines) unit += name + value + " ";
      units.insert(unit);
    }
    CHECK(bodies["mma"] > 500);
    CHECK(bodies["tma"] > 500);
    CHECK(math["mma16"] > 2000);
    CHECK(math["swap"] > 2000);
    CHECK(math["wgmma64"] > 300);
    CHECK(math["wgmma_swap"] > 300);
    CHECK(units.size() <= 1600);
  }
}

TEST_CASE("a math exists where it can be right, and its absence has a reason") {
  const auto maths_of = [](const std::string& architecture, const std::string& text) {
    std::set<std::string> math;
    const LegalSpace legal =
        space().enumerate(expression_environment(problem(text), limits_of_architecture(architecture)));
    for (ConfigId id = 0; id < legal.size(); ++id) math.insert(legal.config(id).at("math").text());
    return math;
  };
  using Names = std::set<std::string>;
  CHECK(maths_of("sm_90a", "") == Names{"mma16", "swap", "wgmma64", "wgmma_swap"});
  CHECK(maths_of("sm_90a", "kv_heads=64") == Names{"mma16", "swap", "wgmma64", "wgmma_swap"});
  CHECK(maths_of("sm_90a", "kv_heads=32,q_len=2") == Names{"mma16", "swap", "wgmma64", "wgmma_swap"});
  CHECK(maths_of("sm_90a", "kv_heads=64,q_len=2,kv_dtype=e4m3") == Names{"mma16", "swap"});
  CHECK(maths_of("sm_90a", "page=16") == Names{"mma16", "swap", "wgmma64"});
  CHECK(maths_of("sm_90a", "page=1") == Names{"mma16", "swap"});
  for (const char* other : {"sm_80", "sm_100a", "sm_120a"}) {
    CHECK(maths_of(other, "") == Names{"mma16", "swap"});
    CHECK(maths_of(other, "kv_heads=32") == Names{"mma16", "swap"});
  }
  const auto why = [](const std::string& text, const std::string& config) {
    const Assignment environment = expression_environment(problem(text), limits_of_architecture("sm_90a"));
    const Config base = *space().default_config(environment);
    return space().why_illegal(space().parse_config(config, &base), environment);
  };
  const std::string tile = "tile=64,query=shared,", tma = tile + "body=tma,producers=1,";
  CHECK(why("", tma + "math=wgmma64,row_tiles=4,warps=4").empty());
  CHECK(why("", tma + "math=wgmma_swap,row_tiles=1,warps=4").empty());
  const std::vector<std::array<std::string, 3>> illegal = {
      {"kv_dtype=e4m3", tma + "math=wgmma64,row_tiles=4,warps=4", "16-bit"},
      {"page=16", tma + "math=wgmma_swap,row_tiles=1,warps=4", "lie together"},
      {"", tma + "math=wgmma64,row_tiles=4,warps=2", "warpgroup of four"},
      {"", tma + "math=wgmma64,row_tiles=1,warps=4", "64 rows"},
      {"", tile + "body=mma,producers=0,math=wgmma64,row_tiles=4,warps=4", "copy engine brought"},
      {"", "body=tma,producers=1,math=wgmma_swap,row_tiles=1,warps=4,query=registers", "shared memory"},
  };
  for (const auto& [dims, config, reason] : illegal) {
    CAPTURE(config);
    CHECK_MESSAGE(why(dims, config).find(reason) != std::string::npos, why(dims, config));
  }
}

TEST_CASE("a warpgroup counts as one worker in a plan's shared memory, and wgmma_swap has room for P twice") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=2,q_heads=32,kv_heads=4,context=8192,q_len=4");  // 32 packed rows
  const Config base = *space().default_config(expression_environment(of, limits));
  const auto shared = [&](const std::string& text) {
    const Config config =
        space().parse_config(text +
                                 ",body=tma,stages=2,producers=1,query=shared,l2=normal,splits=1,combine=none,"
                                 "ahead=0",
                             &base);
    return kernel().plan(config, of, limits).launches.front().dynamic_shared;
  };
  constexpr std::uint32_t kRing = 2 * 2 * 64 * 256, kRow = 256, kBarriers = 4 * 2 * 8, kFlag = 16;
  CHECK(shared("math=swap,tile=64,warps=4,row_tiles=2") == 4 * 32 * (128 + 10) * 4 + 32 * kRow + kBarriers + kFlag);
  CHECK(shared("math=wgmma64,tile=64,warps=4,row_tiles=4") == kRing + 64 * kRow + kBarriers + kFlag);
  CHECK(shared("math=wgmma_swap,tile=64,warps=4,row_tiles=2") ==
        kRing + 32 * kRow + 2 * 64 * 32 * 2 + 4 * 32 * 4 + kBarriers + kFlag);
  CHECK(shared("math=wgmma_swap,tile=128,warps=8,row_tiles=1") ==
        2 * kRing + 16 * kRow + 2 * 128 * 16 * 2 + 8 * 16 * 4 + kBarriers + kFlag);
}

TEST_CASE("no two legal configurations are the same program") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text : {"", "batch=1,q_heads=32,kv_heads=1,context=2048", "batch=8,q_heads=16,kv_heads=16"}) {
    const Problem of = problem(text);
    const LegalSpace legal = space().enumerate(expression_environment(of, limits));
    std::set<std::string> programs;
    for (ConfigId id = 0; id < legal.size(); ++id) {
      const Plan plan = kernel().plan(legal.config(id), of, limits);
      std::string program;
      for (const auto& [name, value] : plan.unit.defines) program += name + "=" + value + " ";
      for (const Launch& launch : plan.launches) {
        program += launch.entry.text() + std::to_string(launch.grid[0]) + "x" + std::to_string(launch.grid[1]) + "/" +
                   std::to_string(launch.cluster[1]) + (launch.programmatic_dependent ? "+" : "-");
        for (const Argument& argument : launch.arguments) {
          if (const auto* scalar = std::get_if<std::int32_t>(&argument.value)) program += "," + std::to_string(*scalar);
        }
      }
      CHECK(programs.insert(program).second);
    }
  }
}

TEST_CASE("every architecture has a legal default and legal configurations for every shape of the grid") {
  for (const std::string& architecture : known_architectures()) {
    const DeviceLimits limits = limits_of_architecture(architecture);
    for (const std::string& text : grid()) {
      const Problem of = problem(text);
      const Assignment environment = expression_environment(of, limits);
      const LegalSpace legal = space().enumerate(environment);
      CHECK_MESSAGE(legal.size() > 0, architecture, " ", of.text());
      const std::optional<Config> chosen = space().default_config(environment);
      REQUIRE_MESSAGE(chosen.has_value(), architecture, " ", of.text());
      CHECK(legal.find(*chosen).has_value());
      const bool short_rows = of.is("kv_dtype", "e4m3") && of["head_dim"] == 64;
      if (limits.compute_capability < 90 || of["page"] == 1 || short_rows) {
        for (ConfigId id = 0; id < legal.size(); ++id) REQUIRE(legal.config(id).is("body", "mma"));
      }
    }
  }
}

TEST_CASE("plans fit the device, cover the problem, and name only what exists") {
  for (const char* architecture : {"sm_89", "sm_90a"}) {
    const DeviceLimits limits = limits_of_architecture(architecture);
    for (const std::string& text : grid()) {
      const Problem of = problem(text);
      std::map<std::string, Buffer> buffers;  // names and sizes only: the largest grid shapes are gigabytes
      for (Buffer& buffer : kernel().buffers(of, 1)) buffers[buffer.name] = buffer;
      const LegalSpace legal = space().enumerate(expression_environment(of, limits));
      for (ConfigId id = 0; id < legal.size(); id += 1 + static_cast<ConfigId>(legal.size() / 200)) {
        const Config config = legal.config(id);
        CAPTURE(config.text());
        const Plan plan = kernel().plan(config, of, limits);
        const bool second_kernel = config.is("combine", "kernel");
        REQUIRE(plan.launches.size() == (second_kernel ? 2 : 1));
        const Launch& attention = plan.launches.front();
        CHECK(attention.dynamic_shared <= limits.shared_per_block);
        CHECK(attention.block[0] == 32 * (config.number("warps") + config.number("producers")));
        const bool persistent = config.is("schedule", "persistent");
        CHECK(attention.grid[1] == config.number("splits"));
        CHECK(attention.grid[2] == (persistent ? 1 : of["batch"]));
        const bool cluster = config.is("combine", "cluster");
        CHECK(attention.cluster == Dim3{1, cluster ? attention.grid[1] : 1, 1});
        CHECK(attention.cluster[1] <= 16);
        CHECK((!cluster || plan.scratch.empty()));
        CHECK(attention.programmatic_dependent == (limits.compute_capability >= 90));
        const std::int64_t head_blocks = persistent ? 1 : attention.grid[0] / of["kv_heads"];
        if (persistent) CHECK(attention.grid[0] == limits.sm_count * config.number("residents"));
        CHECK(head_blocks * 16 * config.number("row_tiles") >= of["q_len"] * of["q_heads"] / of["kv_heads"]);
        for (const Launch& launch : plan.launches) {
          for (const Argument& argument : launch.arguments) {
            std::string name;
            if (const auto* pointer = std::get_if<Pointer>(&argument.value)) name = pointer->buffer.text();
            if (const auto* map = std::get_if<TensorMap>(&argument.value)) {
              name = map->buffer.text();
              std::uint64_t elements = 1;
              for (std::uint64_t dim : map->dims) elements *= dim;
              CHECK(elements == static_cast<std::uint64_t>(buffers.at(name).elements));
              CHECK(map->box[0] * dtype_bytes(map->dtype) == 128);
              CHECK(config.number("tile") % map->box[1] == 0);
              CHECK(map->box[1] <= 256);
              for (std::uint64_t stride : map->strides) CHECK(stride % 16 == 0);
            }
            const bool scratch = std::any_of(plan.scratch.begin(), plan.scratch.end(),
                                             [&](const Scratch& part) { return part.name.view() == name; });
            CHECK((name.empty() || scratch || buffers.count(name) == 1));
          }
        }
        if (second_kernel) {
          CHECK(plan.launches[1].programmatic_dependent == (limits.compute_capability >= 90));
          const auto rows = static_cast<std::uint32_t>(of["q_len"] * of["q_heads"]);
          const auto shared_rows = rows / static_cast<std::uint32_t>(of["kv_heads"]);
          CHECK(plan.launches[1].grid == (persistent ? Dim3{attention.grid[0], shared_rows, 1}
                                                     : Dim3{rows, static_cast<std::uint32_t>(of["batch"]), 1}));
        }
      }
    }
  }
}

TEST_CASE("scratch holds a part of every head for every split, and counters only where blocks count") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=2,q_heads=32,kv_heads=4,context=8192");
  const Config base = *space().default_config(expression_environment(of, limits));
  const auto sizes = [&](const std::string& text) {
    std::map<std::string, std::int64_t> named;
    for (const Scratch& part : kernel().plan(space().parse_config(text, &base), of, limits).scratch) {
      CHECK(part.zeroed == (part.name == "counters"));
      named[part.name.text()] = part.bytes;
    }
    return named;
  };
  using Sizes = std::map<std::string, std::int64_t>;
  CHECK(sizes("splits=1,combine=none") == Sizes{});
  CHECK(sizes("splits=12,combine=cluster") == Sizes{});
  CHECK(sizes("splits=12,combine=kernel") ==
        Sizes{{"partial_o", 2 * 32 * 12 * 128 * 4}, {"partial_lse", 2 * 32 * 12 * 4}});
  CHECK(sizes("splits=12,combine=last_cta") ==
        Sizes{{"partial_o", 2 * 32 * 12 * 128 * 4}, {"partial_lse", 2 * 32 * 12 * 4}, {"counters", 2 * 4 * 4}});
}

TEST_CASE("a persistent grid's scratch is two slots a block and a counter each, whatever the batch") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* batch : {"1", "3", "256"}) {
    const Problem of = problem(std::string("q_heads=32,kv_heads=4,q_len=2,context=4096,lengths=ragged,batch=") + batch);
    const Config base = *space().default_config(expression_environment(of, limits));
    const Config config = space().parse_config(
        "body=tma,schedule=persistent,residents=2,tile=64,warps=4,stages=2,producers=1,row_tiles=1,splits=1,"
        "combine=last_cta,ahead=0",
        &base);
    REQUIRE(space().enumerate(expression_environment(of, limits)).find(config).has_value());
    const std::int64_t blocks = 2 * limits.sm_count, rows = 2 * blocks * 16;
    std::map<std::string, std::int64_t> sizes;
    for (const Scratch& part : kernel().plan(config, of, limits).scratch) {
      CHECK(part.zeroed == (part.name == "counters"));
      sizes[part.name.text()] = part.bytes;
    }
    CHECK(sizes == std::map<std::string, std::int64_t>{
                       {"partial_o", rows * 128 * 4}, {"partial_lse", rows * 4}, {"counters", blocks * 4}});
  }
}

TEST_CASE("a persistent schedule exists where producer warps do and one block has all rows that share KV") {
  const DeviceLimits hopper = limits_of_architecture("sm_90a");
  const auto persistent = [&](const std::string& text, const DeviceLimits& limits) {
    const LegalSpace legal = space().enumerate(expression_environment(problem(text), limits));
    std::size_t count = 0;
    for (ConfigId id = 0; id < legal.size(); ++id) {
      const Config config = legal.config(id);
      if (!config.is("schedule", "persistent")) continue;
      ++count;
      REQUIRE(config.is("body", "tma"));
      REQUIRE(config.number("splits") == 1);
      REQUIRE(config.number("residents") >= 1);
      REQUIRE((config.is("combine", "last_cta") || config.is("combine", "kernel")));
    }
    return count;
  };
  CHECK(persistent("lengths=ragged", hopper) > 500);
  CHECK(persistent("lengths=ragged,page=64", hopper) > 200);
  CHECK(persistent("lengths=ragged,q_heads=256", hopper) > 0);  // 32 rows a KV head
  CHECK(persistent("lengths=ragged,q_heads=1024", hopper) == 0);
  CHECK(persistent("lengths=ragged,page=1", hopper) == 0);
  CHECK(persistent("", hopper) == 0);  // a grid of equal sequences is balanced
  CHECK(persistent("lengths=ragged", limits_of_architecture("sm_89")) == 0);
}

TEST_CASE("a window leaves no more splits than it has tiles") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=1,context=131072,window=256");
  const LegalSpace legal = space().enumerate(expression_environment(of, limits));
  REQUIRE(legal.size() > 0);
  for (ConfigId id = 0; id < legal.size(); ++id) {
    const Config config = legal.config(id);
    CHECK(config.number("splits") <= std::max<std::int64_t>(1, 256 / config.number("tile")));
  }
}

TEST_CASE("both references cover every head of every sequence") {
  const DeviceLimits limits = limits_of_architecture("sm_80");
  const Problem of = problem("batch=3,q_heads=24,kv_heads=2,context=1000,page=64,q_len=2");
  const Plan exact = kernel().reference(Reference::exact, of, limits),
             baseline = kernel().reference(Reference::baseline, of, limits);
  CHECK(exact.unit != baseline.unit);
  for (const Plan& plan : {exact, baseline}) {
    REQUIRE(plan.launches.size() == 1);
    CHECK(plan.launches[0].grid == Dim3{3 * 2 * 24, 1, 1});
    REQUIRE(plan.scratch.size() == 1);
    CHECK(plan.scratch[0].bytes == 3 * 2 * 24 * (18 * 64) * 4);  // what the page table has room for
  }
}

TEST_CASE("the references keep the scores of so many rows at a time as fit 4 GiB") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const Problem of = problem("batch=64,q_heads=128,kv_heads=1,head_dim=64,context=1048576,page=64,q_len=4");
  const Plan plan = kernel().reference(Reference::exact, of, limits);
  CHECK(plan.scratch[0].bytes <= std::int64_t{4} << 30);
  CHECK(plan.launches[0].grid == Dim3{1023, 1, 1});
}

TEST_CASE("what keys and values would take is counted in their own type") {
  problem("batch=576,q_heads=64,kv_heads=8,context=131072,kv_dtype=e4m3");
  CHECK_THROWS_WITH_AS(problem("batch=576,q_heads=64,kv_heads=8,context=131072"),
                       "decode_attention: keys and values would take 288 GiB; at most 256 GiB are supported", BadInput);
}

TEST_CASE("a grid of one wave that asks ahead leaves no room for the next launch's blocks beside its own") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  const auto shared = [&](const char* dims, const char* text) {
    const Problem of = problem(dims);
    const Config base = *space().default_config(expression_environment(of, limits));
    const Config config = space().parse_config(
        std::string("body=tma,math=mma16,schedule=grid,tile=64,warps=4,stages=2,producers=1,") + text, &base);
    return kernel().plan(config, of, limits).launches.front().dynamic_shared;
  };
  const auto fit = [&](std::uint32_t bytes) { return limits.shared_per_sm / (bytes + 1024); };
  const char* const one_each = "batch=16,q_heads=32,kv_heads=8,context=4096";  // 128 blocks on 132 SMs
  CHECK(fit(shared(one_each, "splits=1,combine=none,ahead=0")) == 3);
  CHECK(fit(shared(one_each, "splits=1,combine=none,ahead=2")) == 1);
  CHECK(fit(shared(one_each, "splits=2,combine=kernel,ahead=2")) == 2);
  CHECK(fit(shared(one_each, "splits=2,combine=cluster,ahead=2")) == 2);
  CHECK(fit(shared(one_each, "splits=4,combine=kernel,ahead=2")) == 3);  // more than one wave
  // So few blocks that the next launch's find an SM each anyhow.
  CHECK(fit(shared("batch=1,q_heads=32,kv_heads=8,context=1024", "splits=8,combine=cluster,ahead=1")) == 3);
}

}  // namespace moetune::decode_attention_space_test
