// The small operations' templates on the CPU: the references against float64, and configurations spread over the space
// against float64 as their types round it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/kernels/answers/answers.h"
#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// A value of `type`, which may be off by what half a step of it is; e4m3's steps are as wide as f16's sums are exact.
IsRight rounded_small(const Problem& problem) {
  const bool narrow = problem.dims.find("out") != nullptr && problem.is("out", "e4m3");
  const bool narrow_cache = problem.dims.find("kv_dtype") != nullptr && problem.is("kv_dtype", "e4m3");
  const double half_of_type = problem.is("dtype", "bf16") ? 0x1p-8 : 0x1p-11;
  return [=](const std::string& name, double got, double right) {
    if (std::isnan(right)) return std::isnan(got);
    const double half = narrow || (narrow_cache && name.ends_with("_cache")) ? 0x1p-4 : half_of_type;
    if (name == "residual_out" || name == "v_cache") return got == right;
    if (name == "scales") return std::abs(got - right) <= 1e-5 * right;
    return std::abs(got - right) <= half * 1.01 * std::max(std::abs(right), 0x1p-6);
  };
}

IsRight near_in_f32() {
  return [](const std::string&, double got, double right) {
    return (std::isnan(got) && std::isnan(right)) || std::abs(got - right) <= 1e-5 * (1 + std::abs(right));
  };
}

void check_small_reference(const SimtProblem& one) {
  const HostTensors right = one.on_cpu();
  check_outputs(one.reference(Reference::exact), right, near_in_f32());
}

void check_small_sample(const SimtProblem& one) {
  const HostTensors right = one.on_cpu();
  std::uint64_t schedule = 0;
  for (const Config& config : one.sample(simt_sample(4), Rules::must)) {
    CAPTURE(config.text());
    check_outputs(one.run(config, ++schedule), right, rounded_small(one.problem));
  }
}

const std::vector<std::string> kNormProblems = {
    "tokens=7,hidden=264",
    "tokens=1,hidden=8,dtype=f16,out=f16,weight=plus_one",
    "tokens=5,hidden=2880,residual=yes",
    "tokens=9,hidden=1032,residual=yes,dtype=f16,out=f16",
    "tokens=6,hidden=136,out=e4m3",
    "tokens=5,hidden=2056,residual=yes,out=e4m3,weight=plus_one",
    "tokens=11,hidden=520,residual=yes,out=e4m3,scale=token",
    "tokens=3,hidden=4104,out=e4m3,scale=token,dtype=f16",
    "tokens=4,hidden=1032,residual=yes,out=e4m3,scale=static",
};

const std::vector<std::string> kActProblems = {
    "tokens=7,intermediate=264",
    "tokens=1,intermediate=8,dtype=f16,out=f16,gate_up=in_turn",
    "tokens=5,intermediate=2880,activation=swigluoai,gate_up=in_turn",
    "tokens=9,intermediate=520,activation=swigluoai",
    "tokens=6,intermediate=136,out=e4m3",
    "tokens=5,intermediate=768,out=e4m3,activation=swigluoai,gate_up=in_turn,dtype=f16",
};

const std::vector<std::string> kRopeProblems = {
    "tokens=6,q_heads=3,kv_heads=2,head_dim=64,rotary_dim=64,kv=pages,page=4,kv_dtype=e4m3",
    "tokens=5,q_heads=4,kv_heads=4,head_dim=80,rotary_dim=32,kv=pages,page=1,kv_dtype=e4m3,kv_scale=head,dtype=f16",
    "tokens=4,q_heads=2,kv_heads=1,head_dim=32,rotary_dim=16,pairs=neighbors,norm=no,kv=pages,page=8,kv_dtype=e4m3",
    "tokens=5,q_heads=4,kv_heads=1,tables=bf16",
    "tokens=3,q_heads=3,kv_heads=2,head_dim=64,rotary_dim=32,dtype=f16,pairs=neighbors,norm=no",
    "tokens=7,q_heads=2,kv_heads=2,head_dim=80,rotary_dim=16,kv=pages,page=4",
    "tokens=4,q_heads=8,kv_heads=1,head_dim=256,rotary_dim=256,kv=pages,page=16,tables=f16",
    "tokens=9,q_heads=6,kv_heads=3,head_dim=72,rotary_dim=64,kv=pages,page=1,pairs=neighbors,dtype=f16,kv_dtype=f16",
};

const std::vector<std::string> kFewRowsProblems = {
    "tokens=1,in=264,out=37",           "tokens=3,in=520,out=70,dtype=f16,bias=yes", "tokens=5,in=1032,out=33",
    "tokens=16,in=264,out=19,bias=yes", "tokens=11,in=2088,out=24,dtype=f16",        "tokens=2,in=8,out=1",
};

// Sums of many products: off by what their order changes, and half a step of the type.
IsRight rounded_sums(const Problem& problem) {
  const double half = problem.is("dtype", "bf16") ? 0x1p-8 : 0x1p-11;
  return [half](const std::string&, double got, double right) {
    return (std::isnan(got) && std::isnan(right)) || std::abs(got - right) <= half * 1.01 * std::abs(right) + 1e-4;
  };
}

}  // namespace

TEST_CASE("simt: few_rows_linear's exact reference agrees with float64") {
  for (const std::string& text : kFewRowsProblems) {
    CAPTURE(text);
    check_small_reference({"few_rows_linear", text, 1});
  }
}

TEST_CASE("simt: few_rows_linear configurations multiply as float64 does, under several schedules") {
  std::uint64_t schedule = 0;
  for (const std::string& text : kFewRowsProblems) {
    CAPTURE(text);
    SimtProblem one("few_rows_linear", text, 2);
    for (const std::int64_t apart : {0, 24}) {  // elements between rows
      for (std::int64_t& row : one.call.integers) row += apart;
      const HostTensors right = one.on_cpu();
      for (const bool by_mma : {false, true}) {
        const auto wanted = [&](const Config& config) { return (config.at("LANES").number == 4) == by_mma; };
        for (const Config& config : one.sample(simt_sample(3), Rules::must, wanted)) {
          CAPTURE(config.text());
          check_outputs(one.run(config, ++schedule), right, rounded_sums(one.problem));
        }
      }
    }
  }
}

namespace {

const std::vector<std::string> kGateProblems = {
    "tokens=1,hidden=264,experts=16,top_k=2",
    "tokens=3,hidden=520,experts=64,top_k=4,score=topk_softmax,gate_bias=yes,ids=i64",
    "tokens=19,hidden=72,experts=24,top_k=8,dtype=f16,logits=f16,renormalize=no",
    "tokens=9,hidden=136,experts=64,top_k=6,score=sigmoid,bias=correction,groups=8,groups_kept=4,logits=f32",
    "tokens=2,hidden=8,experts=8,top_k=1,score=sqrt_softplus",
};

// Ids and logits exactly; weights by a few units in their last place.
IsRight routed() {
  return [](const std::string& name, double got, double right) {
    return got == right || (name == "weights" && std::abs(got - right) <= 2e-5 * std::abs(right) + 1e-6);
  };
}

}  // namespace

TEST_CASE("simt: gate_route's exact reference agrees with float64") {
  for (const std::string& text : kGateProblems) {
    CAPTURE(text);
    const SimtProblem one("gate_route", text, 1);
    check_outputs(one.reference(Reference::exact), one.on_cpu(), routed());
  }
}

TEST_CASE("simt: gate_route configurations choose as float64 does, under several schedules") {
  std::uint64_t schedule = 0;
  for (const std::string& text : kGateProblems) {
    CAPTURE(text);
    SimtProblem one("gate_route", text, 2);
    for (const std::int64_t apart : {0, 24}) {  // elements between rows
      for (std::int64_t& row : one.call.integers) row += apart;
      const HostTensors right = one.on_cpu();
      for (const bool by_mma : {false, true}) {
        const auto wanted = [&](const Config& config) { return (config.at("PRODUCT_LANES").number == 4) == by_mma; };
        for (const Config& config : one.sample(simt_sample(2), Rules::must, wanted)) {
          CAPTURE(config.text());
          check_outputs(one.run(config, ++schedule, 2), right, routed());
        }
      }
    }
  }
}

TEST_CASE("simt: add_rmsnorm's exact reference agrees with float64") {
  for (const std::string& text : kNormProblems) {
    CAPTURE(text);
    check_small_reference({"add_rmsnorm", text, 1});
  }
}

TEST_CASE("simt: add_rmsnorm configurations normalize as float64 does, under several schedules") {
  for (const std::string& text : kNormProblems) {
    CAPTURE(text);
    check_small_sample({"add_rmsnorm", text, 1});  // several rows a team
  }
}

TEST_CASE("simt: add_rmsnorm with rows that lie apart") {
  SimtProblem one("add_rmsnorm", "tokens=4,hidden=264,residual=yes", 1);
  one.call.integers = {288, 272, 320, 264};
  check_small_reference(one);
  check_small_sample(one);
}

TEST_CASE("simt: qk_norm_rope's exact reference agrees with float64") {
  for (const std::string& text : kRopeProblems) {
    CAPTURE(text);
    const SimtProblem one("qk_norm_rope", text, 1);
    check_small_reference(one);
    if (one.problem.is("kv", "pages"))
      check_outputs({{"v_cache", one.reference(Reference::baseline).at("v_cache")}},
                    {{"v_cache", one.reference(Reference::exact).at("v_cache")}});
  }
}

TEST_CASE("simt: qk_norm_rope configurations turn heads as float64 does, under several schedules") {
  for (const std::string& text : kRopeProblems) {
    CAPTURE(text);
    check_small_sample({"qk_norm_rope", text, 1});
  }
}

TEST_CASE("simt: qk_norm_rope into pages whose heads lie before their slots, and tokens without a slot") {
  SimtProblem one("qk_norm_rope", "tokens=6,q_heads=2,kv_heads=2,head_dim=64,rotary_dim=64,kv=pages,page=4", 1);
  // qkv, cos, sin; q; k of rows, unused; caches of [pages, 2 heads, 4 slots, 64], keys and values in turn.
  one.call.integers = {400, 48, 32, 160, 72, 0, 0, 1024, 64, 256, 1024, 64, 256};
  const std::vector<std::int64_t> slots = {5, -1, 0, 7, -1, 2};
  const auto set_slots = [&](SimtTensors& tensors) { std::memcpy(tensors.bytes("slots").data(), slots.data(), 48); };
  one.edit = set_slots;
  SimtTensors edited = one.tensors();
  HostTensors inputs = edited.inputs();
  inputs.at("slots").assign(slots.begin(), slots.end());
  const HostTensors right = answer_on_cpu(one.problem, one.call, inputs);
  check_outputs(one.reference(Reference::exact), right, near_in_f32());
  std::uint64_t schedule = 0;
  for (const Config& config : one.sample(simt_sample(4), Rules::must))
    check_outputs(one.run(config, ++schedule), right, rounded_small(one.problem));
}

TEST_CASE("simt: act_mul's exact reference agrees with float64") {
  for (const std::string& text : kActProblems) {
    CAPTURE(text);
    check_small_reference({"act_mul", text, 1});
  }
}

TEST_CASE("simt: act_mul configurations activate as float64 does, under several schedules") {
  for (const std::string& text : kActProblems) {
    CAPTURE(text);
    SimtProblem one("act_mul", text, 1);
    check_small_sample(one);
    one.call.integers[0] += 24;
    one.call.integers[1] += 16;
    check_small_sample(one);
  }
}
