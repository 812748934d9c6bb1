// prefill_attention's templates on the CPU: the reference against float64, and configurations of the mma body spread
// over the space against the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tests/kernels/random_prefill_call.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::vector<std::string> kPrefills = {
    "batch=1,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=1,seqlen_kv=1",
    "batch=1,q_heads=1,kv_heads=1,head_dim=64,seqlen_q=70,seqlen_kv=70,lse=natural",
    "batch=2,q_heads=2,kv_heads=2,head_dim=64,seqlen_q=5,seqlen_kv=130,causal=0,dtype=fp16",
    "batch=6,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=67,seqlen_kv=90,lengths=ragged,lse=natural,softcap=2",
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=90,lengths=ragged,page=32,sinks=learned,"
    "lse=natural",
    "batch=5,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=66,seqlen_kv=200,lengths=ragged,page=64,window=17,"
    "layout=hnd,dtype=fp16",
    "batch=5,q_heads=2,kv_heads=1,head_dim=256,seqlen_q=40,seqlen_kv=70,lengths=ragged,causal=0,layout=hnd,"
    "lse=natural",
    "batch=3,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=9,seqlen_kv=300,window=1,page=128,sinks=learned,lse=natural",
    "batch=2,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=70,seqlen_kv=130,lse=natural,kv_dtype=e4m3,kv_scale=head",
    "batch=6,q_heads=2,kv_heads=1,head_dim=128,seqlen_q=40,seqlen_kv=90,lengths=ragged,page=16,dtype=fp16,"
    "kv_dtype=e4m3,softcap=3",
    "batch=5,q_heads=4,kv_heads=2,head_dim=256,seqlen_q=20,seqlen_kv=70,lengths=ragged,window=30,layout=hnd,"
    "lse=natural,kv_dtype=e4m3,kv_scale=head",
    "batch=5,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=70,lengths=ragged,lse=natural,kv_dtype=e4m3,"
    "kv_scale=head,q_dtype=e4m3",
    "batch=6,q_heads=2,kv_heads=1,head_dim=80,seqlen_q=67,seqlen_kv=90,lengths=ragged,page=16,lse=natural,softcap=2",
    "batch=5,q_heads=4,kv_heads=2,head_dim=96,seqlen_q=40,seqlen_kv=99,lengths=ragged,page=64,window=17,layout=hnd,"
    "dtype=fp16",
    "batch=2,q_heads=2,kv_heads=2,head_dim=112,seqlen_q=5,seqlen_kv=131,causal=0,sinks=learned",
    "batch=3,q_heads=2,kv_heads=1,head_dim=192,seqlen_q=33,seqlen_kv=70,lengths=ragged,lse=natural,"
    "dtype=fp16",
    "batch=2,q_heads=2,kv_heads=1,head_dim=80,seqlen_q=35,seqlen_kv=75,kv_dtype=e4m3,kv_scale=head,page=16",
    "batch=2,q_heads=2,kv_heads=1,head_dim=96,seqlen_q=35,seqlen_kv=75,lengths=ragged,kv_dtype=e4m3,q_dtype=e4m3",
    "batch=2,q_heads=2,kv_heads=1,head_dim=112,seqlen_q=35,seqlen_kv=75,kv_dtype=e4m3,window=30,dtype=fp16",
    "batch=2,q_heads=2,kv_heads=1,head_dim=192,seqlen_q=35,seqlen_kv=75,kv_dtype=e4m3,lse=natural",
};

// Where element `i` of a tile lies as fp16, in bytes.
std::size_t swizzled_place(std::size_t i, std::size_t rows, std::size_t dim) {
  const std::size_t row = i / dim, column = i % dim;
  return column / 64 * rows * 128 + row * 128 + ((column % 64 / 8) ^ (row % 8)) * 16 + column % 8 * 2;
}

Config mma_config(const std::string& at_launch) {
  return shared_space("prefill_attention")
      .parse_config(
          "body=mma,warpgroups=1,tile=64,stages=2,query_stages=1,packed=0,overlap=0,ping_pong=0,lag=8,poly=0,trim=0,"
          "schedule=grid,cluster=1," +
              at_launch,
          nullptr);
}

// Of an architecture whose body runs on the CPU, with these offsets of two sequences.
void prepare(SimtProblem& prefill, const std::string& name, const std::array<std::int32_t, 3>& offsets) {
  prefill.limits = limits_of_architecture("sm_80");
  prefill.edit = [name, offsets](SimtTensors& tensors) {
    std::memcpy(tensors.bytes(name).data(), offsets.data(), sizeof offsets);
  };
}

}  // namespace

TEST_CASE("simt: the reference of prefill_attention agrees with float64") {
  for (const std::string& text : kPrefills) {
    CAPTURE(text);
    const SimtProblem prefill("prefill_attention", text, 4);
    const HostTensors right = prefill.on_cpu();
    check_outputs(prefill.reference(Reference::exact), right,
                  [](const std::string&, double got, double value) { return is_near(got, value, 1e-5); });
    // Scales make larger scores of e4m3, which the baseline rounds, and with e4m3 queries probabilities, too.
    const double rounding =
        (prefill.problem.is("dtype", "fp16") ? 0x1p-9 : 0x1p-6) * (prefill.problem.is("q_dtype", "e4m3")    ? 8
                                                                   : prefill.problem.is("kv_dtype", "e4m3") ? 3
                                                                                                            : 1);
    check_outputs(prefill.reference(Reference::baseline), right,
                  [&](const std::string&, double got, double value) { return is_near(got, value, rounding); });
  }
}

TEST_CASE("simt: the mma body of prefill_attention is right, run after run, under several schedules") {
  for (const std::string& text : kPrefills) {
    CAPTURE(text);
    SimtProblem prefill("prefill_attention", text, 4);
    prefill.limits = limits_of_architecture("sm_80");
    const HostTensors right = prefill.on_cpu();
    const double rounding = prefill.problem.is("dtype", "fp16") ? 0x1p-9 : 0x1p-6;
    std::uint64_t schedule = 0;
    for (const Config& config : prefill.sample(simt_sample(2), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(prefill.run(config, schedule++, 1), right, [&](const std::string& name, double got, double value) {
        return is_near(got, value, name == "o" ? rounding : 1e-4);
      });
    }
  }
}

TEST_CASE("simt: keys of e4m3 whose scale is 0 or nearly give the mean of the values that a token sees") {
  for (const float scale : {0.0f, 1e-45f, -1e-45f}) {
    CAPTURE(scale);
    SimtProblem prefill("prefill_attention",
                        "batch=3,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=90,lengths=ragged,"
                        "lse=natural,kv_dtype=e4m3",
                        4);
    prefill.limits = limits_of_architecture("sm_80");
    prefill.edit = [&](SimtTensors& tensors) { std::memcpy(tensors.bytes("k_scale").data(), &scale, sizeof scale); };
    const HostTensors right = prefill.reference(Reference::exact);
    CHECK(std::none_of(right.at("o").begin(), right.at("o").end() - 3 * 2 * 64,
                       [](double value) { return std::isnan(value); }));
    for (const Config& config : prefill.sample(simt_sample(4), Rules::must)) {
      CAPTURE(config.text());
      check_outputs(prefill.run(config, 3), right, [](const std::string& name, double got, double value) {
        return is_near(got, value, name == "o" ? 0x1p-6 : 1e-4);
      });
    }
  }
}

TEST_CASE("simt: keys of e4m3 may have a negative scale: the least products count most") {
  SimtProblem prefill("prefill_attention",
                      "batch=3,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=40,seqlen_kv=90,lengths=ragged,window=50,"
                      "lse=natural,kv_dtype=e4m3,kv_scale=head",
                      4);
  prefill.limits = limits_of_architecture("sm_80");
  prefill.edit = [](SimtTensors& tensors) {
    const float scales[] = {-2.5f, 1};  // of two heads
    std::memcpy(tensors.bytes("k_scale").data(), scales, sizeof scales);
  };
  const HostTensors right = prefill.reference(Reference::exact);
  for (const Config& config : prefill.sample(simt_sample(4), Rules::must)) {
    CAPTURE(config.text());
    check_outputs(prefill.run(config, 3), right, [](const std::string& name, double got, double value) {
      return is_near(got, value, name == "o" ? 0x1p-6 : 1e-4);
    });
  }
}

TEST_CASE("simt: keys that are not a number show in all that see them, however a sequence is split") {
  for (const std::size_t poisoned : {1, 100}) {  // tokens: one of many, and all of the first split
    CAPTURE(poisoned);
    SimtProblem prefill("prefill_attention",
                        "batch=1,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=64,seqlen_kv=200,causal=0,lse=natural", 4);
    prefill.limits = limits_of_architecture("sm_80");
    prefill.edit = [&](SimtTensors& tensors) {
      const std::uint16_t nan = 0x7fc0;
      for (std::size_t i = 0; i < poisoned * 64; ++i)
        std::memcpy(tensors.bytes("k").data() + i * sizeof nan, &nan, sizeof nan);
    };
    for (const char* schedule : {"section=0,splits=1", "section=0,splits=2"}) {
      CAPTURE(schedule);
      const HostTensors got = prefill.run(mma_config(schedule), 3);
      for (const char* const output : {"o", "lse"})
        CHECK(std::ranges::all_of(got.at(output), [](double value) { return std::isnan(value); }));
    }
  }
}

TEST_CASE("simt: splits of a sequence with more new tokens than was said write nothing elsewhere") {
  SimtProblem prefill("prefill_attention",
                      "batch=2,q_heads=2,kv_heads=2,head_dim=64,seqlen_q=64,seqlen_kv=200,lengths=ragged", 4);
  prepare(prefill, "q_offsets", {0, 0, 68});
  CHECK_NOTHROW(prefill.run(mma_config("section=0,splits=2"), 3));  // the emulator knows where partial results end
}

TEST_CASE("simt: a sequence with more new tokens than was said takes nothing from the others") {
  SimtProblem prefill("prefill_attention", "batch=2,q_heads=1,kv_heads=1,head_dim=64,seqlen_q=64,seqlen_kv=200", 4);
  prepare(prefill, "q_offsets", {0, 100, 128});
  const std::vector<double> right = prefill.reference(Reference::exact).at("o");
  for (const char* schedule : {"section=0,splits=1", "section=0,splits=2", "section=2,splits=1"}) {
    CAPTURE(schedule);
    const std::vector<double> got = prefill.run(mma_config(schedule), 3).at("o");
    for (std::size_t i = 0; i < 128 * 64; ++i) {
      const std::size_t token = i / 64;
      if (token >= 64 && token < 100) continue;  // not computed
      REQUIRE_MESSAGE(is_near(got[i], right[i], 0x1p-6), i);
    }
  }
}

TEST_CASE("simt: offsets may be anything: nothing is read or written outside of the tensors") {
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const char* const name : {"q_offsets", "kv_offsets"}) {
    for (const std::array<std::int32_t, 3>& offsets :
         {std::array{0, 120, kLeast}, {0, kLeast, 128}, {kLeast, 50, kMost}, {kMost, 50, 128}, {0, -7, 10}}) {
      CAPTURE(name);
      CAPTURE(offsets[1]);
      SimtProblem prefill("prefill_attention", "batch=2,q_heads=1,kv_heads=1,head_dim=64,seqlen_q=64,seqlen_kv=200", 4);
      prepare(prefill, name, offsets);
      for (const char* schedule : {"section=0,splits=1", "section=0,splits=2", "section=2,splits=1"})
        CHECK_NOTHROW(prefill.run(mma_config(schedule), 3));  // the emulator knows where each tensor ends
    }
  }
}

TEST_CASE("simt: a tile of e4m3 lands as fp16 in the order of the 128-byte swizzle, zeros in rows that no query sees") {
  const Kernel& kernel = find_kernel("prefill_attention");
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const int head_dim : {64, 80, 96, 112, 128, 192, 256}) {
    const Problem problem = kernel.parse("kv_dtype=e4m3,head_dim=" + std::to_string(head_dim));
    const Config config = *shared_space(kernel.name()).default_config(expression_environment(problem, limits));
    REQUIRE(config.is("body", "wgmma"));
    CompileUnit unit = kernel.launcher(config, problem, limits)->unit();
    unit.source = "tests/simt/kernels/widen_tile.cu";
    SimtDevice device(unit);
    const std::size_t rows = static_cast<std::size_t>(config.number("tile"));
    const std::size_t dim = static_cast<std::size_t>(head_dim);
    std::vector<std::uint8_t> raw(rows * dim);
    for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::uint8_t>(i * 7 % 256);
    const int all = static_cast<int>(rows);
    // As a tile in the middle of a sequence, at its end, where a window begins, and where both lie in it.
    for (const auto& [begin, end] : {std::pair{-40, 3 * all}, {0, all}, {-7, all - 9}, {5, all + 1}, {17, 18}}) {
      CAPTURE(begin);
      std::vector<std::uint8_t> tile((dim + 63) / 64 * 128 * rows, 0xff);
      LaunchPlan plan;
      Launch& launch = plan.launches.emplace_back();
      launch.entry = "widen_tile";
      launch.block[0] = 96;
      launch.arguments = {pointer_argument("raw"), pointer_argument("tile"), {"begin", begin}, {"end", end}};
      device.run(plan, {{"raw", SimtBuffer(raw)}, {"tile", SimtBuffer(tile)}});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < raw.size(); ++i) {
        const int row = static_cast<int>(i / dim);
        const bool kept = row >= begin && row < end;
        const double got = load_element(DType::f16, &tile[swizzled_place(i, rows, dim)], 0);
        const double right = kept ? load_element(DType::e4m3, &raw[i], 0) : 0;
        wrong += !(got == right || (std::isnan(got) && std::isnan(right)));
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("simt: the mma body of prefill_attention takes tensors as servers lay them out") {
  for (const char* const family : kPrefillFamilies) {
    const Kernel& kernel = find_kernel("prefill_attention");
    RandomPrefills members(kernel, kernel.parse(family), 40, 21);
    for (int i = 0; i < 2; ++i) {
      FamilyMember member = members.next();
      while (member.problem["q_heads"] * member.problem["batch"] > 8) member = members.next();
      CAPTURE(member.problem.text());
      SimtProblem prefill("prefill_attention", member.problem.text(), 4);
      prefill.limits = limits_of_architecture("sm_80");
      prefill.call = member.call;
      const HostTensors right = prefill.on_cpu();
      check_outputs(prefill.reference(Reference::exact), right,
                    [](const std::string&, double got, double value) { return is_near(got, value, 1e-5); });
      for (const Config& config : prefill.sample(simt_sample(1), Rules::must)) {
        CAPTURE(config.text());
        check_outputs(prefill.run(config, static_cast<std::uint64_t>(i)), right,
                      [](const std::string& name, double got, double value) {
                        return is_near(got, value, name == "o" ? 0x1p-6 : 1e-4);
                      });
      }
    }
  }
}
