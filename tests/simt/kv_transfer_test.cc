// kv_transfer's template on the CPU, against what the CPU makes of the same values.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel_space.h"
#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

const std::vector<std::string> kMoves = {
    "pages=5,planes=2,outer=4,inner=3,width=24",
    "pages=1,planes=1,outer=1,inner=1,width=8",
    "pages=7,planes=3,outer=5,inner=1,width=72,move=scatter,source=f16,target=f16",
    "pages=6,planes=1,outer=3,inner=8,width=32,move=pools,source=e4m3,target=e4m3",
    "pages=9,planes=1,outer=16,inner=4,width=64,sms=2",
};

const std::vector<std::string> kConversions = {
    "pages=4,planes=2,outer=4,inner=3,width=48,target=e4m3,scale=inner",
    "pages=3,planes=1,outer=2,inner=2,width=16,source=f16,target=e4m3,scale=tensor,move=scatter",
    "pages=5,planes=2,outer=5,inner=2,width=32,source=e4m3,scale=outer,move=scatter",
    "pages=2,planes=3,outer=1,inner=7,width=16,source=e4m3,target=f16,scale=inner,move=pools",
};

bool is_bulk(const Config& config) { return config.at("BODY").text() == "bulk"; }

bool can_be_bulk(const SimtProblem& one) {
  const LegalSpace space =
      shared_space("kv_transfer").enumerate(expression_environment(one.problem, one.limits), Rules::must);
  for (ConfigId id = 0; id < space.size(); ++id)
    if (is_bulk(space.config(id))) return true;
  return false;
}

// A sample of each body under several schedules.
template <typename Check>
void each_transfer(const SimtProblem& one, std::size_t count, Check check) {
  std::uint64_t schedule = 0;
  for (const bool bulk : {false, true}) {
    if (bulk && !can_be_bulk(one)) continue;
    const auto wanted = [&](const Config& config) { return is_bulk(config) == bulk; };
    for (const Config& config : one.sample(simt_sample(count), Rules::must, wanted)) {
      CAPTURE(config.text());
      check(config, ++schedule);
    }
  }
}

void check_transfers(const SimtProblem& one) {
  const HostTensors right = one.on_cpu();
  each_transfer(one, 4,
                [&](const Config& config, std::uint64_t schedule) { check_outputs(one.run(config, schedule), right); });
}

// Bytes that the configuration leaves in the target, which begins as 0xFF.
std::vector<std::uint8_t> target_bytes(const SimtProblem& one, const Config& config, std::uint64_t schedule) {
  const Plan plan = one.kernel.plan(config, one.problem, one.call, one.limits);
  SimtDevice device(plan.unit, {.seed = schedule});
  SimtTensors tensors = one.tensors();
  tensors.run(device, plan);
  return tensors.bytes("target");
}

void set_list(SimtTensors& tensors, const char* name, const std::vector<std::int32_t>& pages) {
  std::memcpy(tensors.bytes(name).data(), pages.data(), pages.size() * sizeof pages[0]);
}

}  // namespace

TEST_CASE("simt: kv_transfer's references agree with the CPU") {
  for (const auto* problems : {&kMoves, &kConversions}) {
    for (const std::string& text : *problems) {
      CAPTURE(text);
      const SimtProblem one("kv_transfer", text, 3);
      check_outputs(one.reference(Reference::exact), one.on_cpu());
      check_outputs(one.reference(Reference::baseline), one.on_cpu());
    }
  }
}

TEST_CASE("simt: kv_transfer moves every value, under several schedules") {
  for (const std::string& text : kMoves) {
    CAPTURE(text);
    check_transfers({"kv_transfer", text, 1});
  }
}

TEST_CASE("simt: kv_transfer converts as the CPU does") {
  for (const std::string& text : kConversions) {
    CAPTURE(text);
    check_transfers({"kv_transfer", text, 2});
  }
}

TEST_CASE("simt: kv_transfer between pages that lie apart, with heads before slots at one end") {
  SimtProblem one("kv_transfer", "pages=4,planes=2,outer=4,inner=3,width=24,move=pools", 2);
  // From pages of [4 slots, 3 heads], keys and values in turn, to planes of their own of [3 heads, 4 slots].
  one.call.integers = {640, 320, 80, 24, 296, 1200, 24, 96};
  check_transfers(one);
}

TEST_CASE("simt: kv_transfer reads a page twice, and leaves pages out that a list has not") {
  for (const char* text : {"pages=6,planes=2,outer=4,inner=2,width=32",
                           "pages=6,planes=2,outer=4,inner=2,width=32,move=pools,target=e4m3,scale=tensor"}) {
    CAPTURE(text);
    SimtProblem one("kv_transfer", text, 1);
    const bool both = one.problem.is("move", "pools");
    const std::vector<std::int32_t> from = {3, -1, 3, 0, 5, -7}, to = {1, 2, 0, -1, 4, 5};
    one.edit = [&](SimtTensors& tensors) {
      set_list(tensors, "source_pages", from);
      if (both) set_list(tensors, "target_pages", to);
    };
    HostTensors inputs = one.tensors().inputs();
    inputs.at("source_pages").assign(from.begin(), from.end());
    if (both) inputs.at("target_pages").assign(to.begin(), to.end());
    const HostTensors right = answer_on_cpu(one.problem, one.call, inputs);
    const auto missing = std::ranges::count_if(right.at("target"), [](double value) { return std::isnan(value); });
    CHECK(missing == (both ? 3 : 2) * 512);
    check_outputs(one.reference(Reference::exact), right);
    each_transfer(
        one, 4, [&](const Config& config, std::uint64_t schedule) { check_outputs(one.run(config, schedule), right); });
  }
}

TEST_CASE("simt: kv_transfer keeps the bits of NaN, of -0 and of all others") {
  SimtProblem one("kv_transfer", "pages=3,planes=1,outer=4,inner=2,width=32,move=scatter", 1);
  one.edit = [](SimtTensors& tensors) {
    std::vector<std::uint8_t>& bytes = tensors.bytes("source");
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
    set_list(tensors, "target_pages", {2, 0, 1});
  };
  const std::vector<std::uint8_t> source = one.tensors().bytes("source");
  const std::size_t page = source.size() / 3;
  each_transfer(one, 3, [&](const Config& config, std::uint64_t schedule) {
    const std::vector<std::uint8_t> made = target_bytes(one, config, schedule);
    REQUIRE(made.size() == source.size());
    for (const auto& [from, to] : {std::pair{0, 2}, {1, 0}, {2, 1}})
      CHECK(std::memcmp(&made[to * page], &source[from * page], page) == 0);
  });
}

TEST_CASE("simt: kv_transfer converts every e4m3, and what e4m3 does not hold") {
  SimtProblem widening("kv_transfer", "pages=1,planes=1,outer=8,inner=2,width=16,source=e4m3,scale=tensor", 1);
  widening.edit = [](SimtTensors& tensors) {
    for (std::size_t i = 0; i < 256; ++i) tensors.bytes("source")[i] = static_cast<std::uint8_t>(i);
    set_list(tensors, "source_pages", {0});
  };
  const Config config =
      shared_space("kv_transfer")
          .parse_config("BODY=vectors,THREADS=128,FLIGHT=1,STAGE=0,STAGES=1,HINT=0,BLOCKS_PER_SM=1", nullptr);
  const std::vector<double> wide = widening.run(config, 1).at("target");
  for (std::size_t i = 0; i < 256; ++i) {
    const auto bits = static_cast<std::uint8_t>(i);
    CHECK(is_same("", wide[i], round_to(DType::bf16, load_element(DType::e4m3, &bits, 0) / 16)));
  }

  SimtProblem narrowing("kv_transfer", "pages=1,planes=1,outer=1,inner=1,width=16,target=e4m3,scale=tensor", 1);
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> given = {nan, infinite, -infinite, 28,      28.25, -40, 0,    -0.0,
                                     1,   -1,       0x1p-14,   0x1p-13, 0.3,   27,  1e30, -1e-30};
  narrowing.edit = [&](SimtTensors& tensors) {
    for (std::size_t i = 0; i < given.size(); ++i)
      store_element(DType::bf16, tensors.bytes("source").data(), static_cast<std::int64_t>(i),
                    round_to(DType::bf16, given[i]));
  };
  const std::vector<double> narrow = narrowing.run(config, 1).at("target");
  for (std::size_t i = 0; i < given.size(); ++i) {
    CAPTURE(given[i]);
    CHECK(is_same("", narrow[i], round_to(DType::e4m3, round_to(DType::bf16, given[i]) * 16)));
  }
}
