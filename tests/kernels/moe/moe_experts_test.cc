// moe_experts' host half: rules, calls, inputs, launches, and the answer in float64 on an example worked out by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "include/moetune.h"
#include "kernels/moe/moe_experts_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace {

using namespace moetune;
using Numbers = std::vector<double>;

const Kernel& experts_kernel() { return find_kernel("moe_experts"); }

Problem experts_problem(const std::string& text) { return checked_problem("moe_experts", text); }

// The values of a buffer by name, as a device would hold them.
Numbers values_of(const std::vector<Buffer>& buffers, const std::string& name) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return host_values(buffers[i], 3, fill_stream(i, 0));
  }
  throw BadInput("no buffer " + name);
}

}  // namespace

TEST_CASE("moe_experts: a token is the weighted sum of what its experts make of it") {
  const Problem problem = experts_problem("tokens=2,hidden=8,intermediate=8,experts=8,top_k=2,align=1");
  const double nan = std::nan("");
  // Token 0 has experts 1 and 6, token 1 has expert 6 and a slot that was dropped.
  HostTensors inputs;
  inputs["x"] = Numbers(16, 0.0);
  inputs["x"][0] = 2, inputs["x"][8 + 7] = 3;
  inputs["sorted"] = {0, 1, 2, 4};
  inputs["offsets"] = {0, 0, 1, 1, 1, 1, 1, 3, 3};
  inputs["inverse"] = {0, 1, 2, -1};
  inputs["weights"] = {0.5, 0.25, 2, nan};
  inputs["w_gate_up"] = Numbers(8 * 16 * 8, nan);
  inputs["w_down"] = Numbers(8 * 8 * 8, nan);
  const auto fill = [&](int expert, double gate, double up, double down) {
    for (int i = 0; i < 8; ++i) {
      for (int k = 0; k < 8; ++k) {
        // Rows of gate and up have the same value everywhere; row i of down has i times its value in column 0.
        inputs["w_gate_up"][static_cast<std::size_t>((expert * 16 + i) * 8 + k)] = gate;
        inputs["w_gate_up"][static_cast<std::size_t>((expert * 16 + 8 + i) * 8 + k)] = up;
        inputs["w_down"][static_cast<std::size_t>((expert * 8 + i) * 8 + k)] = k == 0 ? i * down : 0;
      }
    }
  };
  fill(1, 1, 3, 10);
  fill(6, -1, 1, 100);
  const auto swish = [](double value) { return value / (1 + std::exp(-value)); };
  Call call = experts_kernel().default_call(problem);
  call.integers[kMoePlaces] = 4;
  const Numbers out = answer_on_cpu(problem, call, inputs).at("out");
  REQUIRE(out.size() == 16);
  const double first = swish(2) * 6, second = swish(-2) * 2, third = swish(-3) * 3;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto row = static_cast<double>(i);
    CHECK(out[i] == doctest::Approx(row * (0.5 * 10 * first + 0.25 * 100 * second)));
    CHECK(out[8 + i] == doctest::Approx(row * 2 * 100 * third));
  }
}

TEST_CASE("moe_experts: rules across dimensions, and of calls") {
  for (const char* wrong : {"hidden=12", "top_k=9,experts=8", "align=3", "intermediate=12", "dtype=f32"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(experts_problem(wrong), BadInput);
  }
  const Problem problem = experts_problem("hidden=64,intermediate=40");
  const auto refusal = [&](const char* field, double value) {
    return call_refusal(experts_kernel(), problem, field, value);
  };
  CHECK(refusal("x_row", 64) == "");
  CHECK(refusal("x_row", 60) != "");
  CHECK(refusal("out_row", 56) != "");
  CHECK(refusal("places", 0) != "");
  CHECK(refusal("up_row", 72).find("up_expert=5120 must be a multiple of 8 that holds an expert's 80 rows") !=
        std::string::npos);
  CHECK(refusal("up_expert", 79 * 64 + 64 + 8) == "");
  CHECK(refusal("up_expert", 79 * 64 + 64 + 4) != "");
  CHECK(refusal("down_row", 32) != "");
  CHECK_THROWS_WITH_AS(experts_problem("w=e4m3,hidden=128,intermediate=192"),
                       doctest::Contains("intermediate=192 is no multiple of 128"), BadInput);
  const Problem narrow = experts_problem("w=e4m3,hidden=128,intermediate=128");
  CHECK(call_refusal(experts_kernel(), narrow, "x_row", 136).find("x_row=136 must be a multiple of 16") !=
        std::string::npos);
  CHECK(call_refusal(experts_kernel(), narrow, "x_row", 144) == "");
  CHECK(refusal("down_expert", 64 * 40 - 8) != "");
  for (const auto& [wrong, why] :
       {std::pair{"w=mxfp4,hidden=128,intermediate=40", "intermediate=40 is no multiple of 32"},
        {"w=mxfp4,hidden=128,intermediate=64,dtype=fp16", "w=mxfp4 needs dtype=bf16"},
        {"w=e4m3,hidden=128,intermediate=128,activation=swigluoai", "activation=swigluoai is not for w=e4m3"}})
    CHECK_THROWS_WITH_AS(experts_problem(wrong), doctest::Contains(why), BadInput);
}

TEST_CASE("moe_experts: weights in mxfp4 have scales and, as gpt-oss, biases") {
  const Problem problem =
      experts_problem("tokens=4,hidden=96,intermediate=64,experts=8,top_k=2,w=mxfp4,activation=swigluoai");
  const std::vector<Buffer> buffers = experts_kernel().buffers(problem, experts_kernel().default_call(problem), 3);
  CHECK_NOTHROW(check_buffers(buffers));
  CHECK(values_of(buffers, "w_gate_up").size() == 8 * 8 * 2 * 512);  // 96 of K are two blocks
  CHECK(values_of(buffers, "w_down").size() == 8 * 6 * 1 * 512);
  CHECK(values_of(buffers, "gate_up_bias").size() == 8 * 128);
  CHECK(values_of(buffers, "down_bias").size() == 8 * 96);
  const Numbers scales = values_of(buffers, "gate_up_scale");
  CHECK(scales.size() == 8 * 8 * 2 * 32);
  const auto [least, most] = std::ranges::minmax_element(scales);
  CHECK(*least < *most);
  // Products of 96 values are as large as a row's values, within a factor of two or so.
  CHECK(*least >= 253 - 6);
  CHECK(*most <= 254);
  const Numbers codes = values_of(buffers, "w_down");
  CHECK(*std::ranges::max_element(codes) == 255);
  // Read are half a byte and a thirty-second of one for each weight, besides rows and lists.
  const Cost packed = experts_kernel().cost(problem),
             wide = experts_kernel().cost(experts_problem("tokens=4,hidden=96,intermediate=64,experts=8,top_k=2"));
  CHECK(packed.read_bytes < 0.3 * wide.read_bytes);
  CHECK(packed.flops.bf16 == wide.flops.bf16);
}

TEST_CASE("moe_experts: a family in mxfp4 takes bytes of the right number") {
  const auto family = experts_kernel().family_interface(
      experts_problem("hidden=96,intermediate=64,experts=8,top_k=2,w=mxfp4,activation=swigluoai"));
  TensorView x{DType::bf16, {3, 96}, {96, 1}}, sorted{DType::i32, {6}, {1}}, offsets{DType::i32, {9}, {1}},
      inverse{DType::i32, {3, 2}, {2, 1}}, weights{DType::f32, {3, 2}, {2, 1}},
      up{DType::u8, {8, 8, 2, 512}, {8192, 1024, 512, 1}}, down{DType::u8, {8, 6, 1, 512}, {3072, 512, 512, 1}},
      out{DType::bf16, {3, 96}, {96, 1}}, up_scale{DType::u8, {8, 8, 2, 32}, {512, 64, 32, 1}},
      down_scale{DType::u8, {8, 6, 1, 32}, {192, 32, 32, 1}}, up_bias{DType::bf16, {8, 128}, {128, 1}},
      down_bias{DType::bf16, {8, 96}, {96, 1}};
  std::vector<const TensorView*> tensors{&x,   &sorted, &offsets,  &inverse,    &weights, &up,       &down,
                                         &out, nullptr, &up_scale, &down_scale, &up_bias, &down_bias};
  Extents extents;
  Call call;
  CHECK_NOTHROW(family->bind(tensors, "", extents, call));
  CHECK(extents[0] == 3);
  const auto refused = [&](TensorView& one, std::int64_t size, const char* name) {
    const TensorView before = one;
    one.shape[0] = size;
    CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, call), doctest::Contains(name), BadInput);
    one = before;
  };
  refused(up, 7, "'w_gate_up'");
  refused(down, 9, "'w_down'");
  refused(up_scale, 7, "'gate_up_scale'");
  refused(down_scale, 7, "'down_scale'");
  refused(up_bias, 7, "'gate_up_bias'");
  refused(down_bias, 7, "'down_bias'");
}

TEST_CASE("moe_experts: parts have the tensors that they read, and rows of places lie without gaps") {
  const std::string sizes = "tokens=10,hidden=256,intermediate=64,top_k=2,experts=8,align=4";
  const auto names = [&](const std::string& part) {
    const Problem problem = experts_problem(sizes + "," + part);
    std::string all;
    for (const Buffer& buffer : experts_kernel().buffers(problem, experts_kernel().default_call(problem), 3))
      all += (all.empty() ? "" : " ") + buffer.name;
    return all;
  };
  CHECK(names("part=up,out=places") == "x sorted offsets w_gate_up out");
  CHECK(names("part=up,x=places,out=places") == "x offsets w_gate_up out");
  CHECK(names("part=down,x=places") == "x offsets inverse weights w_down out");
  CHECK(names("part=down,x=places,out=places,activation=swigluoai") == "x offsets w_down down_bias out");
  CHECK(names("x=places") == "x offsets inverse weights w_gate_up w_down out");
  for (const auto& [wrong, why] : {std::pair{"part=up", "part=up writes a row for each place: it needs out=places"},
                                   {"part=down,out=places", "it needs x=places"}})
    CHECK_THROWS_WITH_AS(experts_problem(sizes + "," + wrong), doctest::Contains(why), BadInput);
  const auto refusal = [&](const std::string& part, const char* field, double value) {
    return call_refusal(experts_kernel(), experts_problem(sizes + "," + part), field, value);
  };
  CHECK(refusal("part=down,x=places", "x_row", 64) == "");
  CHECK(refusal("part=down,x=places", "x_row", 72).find("x_row=72 must be 64: rows of places lie without gaps") !=
        std::string::npos);
  CHECK(refusal("part=down,x=places", "out_row", 264) == "");
  CHECK(refusal("part=up,out=places", "out_row", 72).find("out_row=72 must be 64") != std::string::npos);
  // Places that no segment has hold nothing that is read.
  const Problem problem = experts_problem(sizes + ",part=down,x=places,out=places");
  Call call = experts_kernel().default_call(problem);
  call.integers[kMoePlaces] = 200;
  const std::vector<Buffer> buffers = experts_kernel().buffers(problem, call, 3);
  const Numbers x = values_of(buffers, "x"), offsets = values_of(buffers, "offsets");
  REQUIRE(x.size() == 200 * 64);
  const auto filled = static_cast<std::size_t>(offsets.back()) * 64;
  CHECK(filled < x.size());
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(std::isnan(x[i]) == (i >= filled));
  // Half of the products are not there, nor are their bytes.
  const Cost up = experts_kernel().cost(experts_problem(sizes + ",part=up,out=places")),
             down = experts_kernel().cost(experts_problem(sizes + ",part=down,x=places")),
             whole = experts_kernel().cost(experts_problem(sizes));
  CHECK(up.flops.bf16 + down.flops.bf16 == whole.flops.bf16);
  CHECK(up.written_bytes == 20 * 64 * 2);
  CHECK(down.written_bytes == whole.written_bytes);
}

TEST_CASE("moe_experts: parts launch what they have, and need no scratch but for products") {
  DeviceLimits limits = limits_of_architecture("sm_90a");
  const auto planned = [&](const char* part) {
    const Problem problem =
        experts_problem(std::string("tokens=64,hidden=512,intermediate=256,top_k=2,experts=16,") + part);
    const auto config = shared_space("moe_experts").default_config(expression_environment(problem, limits));
    REQUIRE(config.has_value());
    const Plan plan = experts_kernel().plan(*config, problem, limits);
    std::string text;
    for (const Launch& launch : plan.launches) text += launch.entry.text() + " ";
    for (const Scratch& scratch : plan.scratch) text += scratch.name.text() + " ";
    return text;
  };
  CHECK(planned("part=up,out=places") == "moe_experts_up ");
  CHECK(planned("part=up,x=places,out=places,w=e4m3") == "moe_experts_up ");
  CHECK(planned("part=down,x=places,out=places,w=mxfp4") == "moe_experts_down ");
  CHECK(planned("part=down,x=places") == "moe_experts_down moe_experts_combine products ");
  CHECK(planned("out=places") == "moe_experts_up moe_experts_down between ");
  CHECK(planned("out=places,w=e4m3") == "moe_experts_up moe_experts_down between between_scales ");
}

TEST_CASE("moe_experts: a family of parts finds places and tokens in the tensors that it has") {
  const std::string sizes = "hidden=256,intermediate=64,top_k=2,experts=8,";
  TensorView rows{DType::bf16, {40, 64}, {64, 1}}, offsets{DType::i32, {9}, {1}}, inverse{DType::i32, {10, 2}, {2, 1}},
      weights{DType::f32, {10, 2}, {2, 1}}, down{DType::bf16, {8, 256, 64}, {256 * 64, 64, 1}},
      out{DType::bf16, {10, 256}, {256, 1}}, products{DType::bf16, {40, 256}, {256, 1}};
  Extents extents;
  Call call;
  const auto summing = experts_kernel().family_interface(experts_problem(sizes + "part=down,x=places"));
  std::vector<const TensorView*> tensors{&rows, nullptr, &offsets, &inverse, &weights, nullptr, &down, &out};
  summing->bind(tensors, "", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[kMoePlaces] == 40);
  CHECK(call.integers[kMoeRow] == 64);
  CHECK(call.integers[kExpertsOutRow] == 256);
  const auto alone = experts_kernel().family_interface(experts_problem(sizes + "part=down,x=places,out=places"));
  tensors = {&rows, nullptr, &offsets, nullptr, nullptr, nullptr, &down, &products};
  alone->bind(tensors, "", extents, call);
  CHECK(extents == Extents{20});  // as many tokens as have 40 places without padding
  products.shape[0] = 39;
  CHECK_THROWS_WITH_AS(alone->bind(tensors, "", extents, call), doctest::Contains("'out' has 39 rows; it must have 40"),
                       BadInput);
  products.shape[0] = 40;
  rows.strides[0] = 72;
  CHECK_THROWS_WITH_AS(alone->bind(tensors, "", extents, call), doctest::Contains("lie without gaps"), BadInput);
}

TEST_CASE("moe_experts: weights whose N is contiguous are views of [experts, K, N]") {
  const std::string sizes = "hidden=256,intermediate=64,top_k=2,experts=8,layout=n_major,part=up,out=places";
  const Problem problem = experts_problem(sizes);
  CHECK(experts_kernel().default_call(problem).integers[kExpertsUpRow] == 128);
  CHECK_THROWS_WITH_AS(experts_problem("w=e4m3,layout=n_major,hidden=128,intermediate=128"),
                       doctest::Contains("layout=n_major is for 16-bit weights"), BadInput);
  const auto family = experts_kernel().family_interface(problem);
  TensorView x{DType::bf16, {10, 256}, {256, 1}}, sorted{DType::i32, {40}, {1}}, offsets{DType::i32, {9}, {1}},
      up{DType::bf16, {8, 128, 256}, {256 * 136, 1, 136}}, out{DType::bf16, {40, 64}, {64, 1}};
  std::vector<const TensorView*> tensors{&x, &sorted, &offsets, nullptr, nullptr, &up, nullptr, &out};
  Extents extents;
  Call call;
  family->bind(tensors, "", extents, call);
  CHECK(call.integers[kExpertsUpRow] == 136);
  CHECK(call.integers[kExpertsUpExpert] == 256 * 136);
  up.strides = {128 * 256, 256, 1};
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, call),
                       doctest::Contains("the values of a column side by side"), BadInput);
}

TEST_CASE("moe_experts: inputs are a routing's, and what no kernel reads is poisoned") {
  const Problem problem =
      experts_problem("tokens=20,hidden=16,intermediate=24,experts=8,top_k=3,align=16,capacity=120,skew=zipf");
  Call call = experts_kernel().default_call(problem);
  call.integers[kMoeRow] = 24;
  call.integers[kExpertsUpRow] = 32;
  call.integers[kExpertsUpExpert] = 48 * 32 + 8;
  call.integers[kExpertsDownExpert] = 16 * 24 + 16;
  CHECK_NOTHROW(experts_kernel().check_call(problem, call));
  const std::vector<Buffer> buffers = experts_kernel().buffers(problem, call, 3);
  CHECK_NOTHROW(check_buffers(buffers));
  const auto is_used = [](std::size_t i, std::size_t row, std::size_t columns) { return i % row < columns; };
  const Numbers x = values_of(buffers, "x");
  REQUIRE(x.size() == 19 * 24 + 16);
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(std::isnan(x[i]) != is_used(i, 24, 16));
  const Numbers up = values_of(buffers, "w_gate_up");
  REQUIRE(up.size() == 7 * (48 * 32 + 8) + 47 * 32 + 16);
  for (std::size_t i = 0; i < up.size(); ++i) {
    const std::size_t within = i % (48 * 32 + 8);
    REQUIRE(std::isnan(up[i]) != (within < 48 * 32 && is_used(within, 32, 16)));
  }
  const Numbers down = values_of(buffers, "w_down");
  for (std::size_t i = 0; i < down.size(); ++i) REQUIRE(std::isnan(down[i]) != is_used(i, 16 * 24 + 16, 16 * 24));
  const Numbers offsets = values_of(buffers, "offsets"), sorted = values_of(buffers, "sorted"),
                inverse = values_of(buffers, "inverse");
  std::size_t dropped = 0;
  for (std::size_t slot = 0; slot < inverse.size(); ++slot) {
    dropped += inverse[slot] < 0;
    if (inverse[slot] >= 0) CHECK(sorted[static_cast<std::size_t>(inverse[slot])] == static_cast<double>(slot));
  }
  CHECK(dropped > 0);
  CHECK(offsets.back() <= static_cast<double>(sorted.size()));
}

TEST_CASE("moe_experts: measuring takes turns between routings that choose other experts") {
  const std::vector<Buffer> buffers =
      experts_kernel().buffers(experts_problem("tokens=1,experts=128,top_k=8,hidden=64"), 3);
  const auto offsets = std::ranges::find(buffers, "offsets", &Buffer::name);
  REQUIRE(offsets != buffers.end());
  std::set<std::set<std::size_t>> chosen;
  for (std::int64_t order = 0; order < kSequenceOrders; ++order) {
    const std::vector<std::int32_t> starts = integers_in_order(*offsets, order);
    std::set<std::size_t> experts;
    for (std::size_t e = 0; e < 128; ++e) {
      if (starts[e + 1] > starts[e]) experts.insert(e);
    }
    CHECK(experts.size() == 8);
    chosen.insert(experts);
  }
  CHECK(chosen.size() >= 12);
}

TEST_CASE("moe_experts: bytes and products count once, weights of as many experts as are expected") {
  const Cost all = experts_kernel().cost(experts_problem("tokens=4096,experts=8,top_k=2,hidden=64,intermediate=40"));
  CHECK(all.read_bytes == doctest::Approx(4096 * 64 * 2 + 8 * 3 * 64 * 40 * 2 + 4096 * 2 * 12));
  CHECK(all.written_bytes == 4096 * 64 * 2);
  CHECK(all.flops.bf16 == 4096.0 * 2 * 3 * 64 * 40 * 2);
  CHECK(all.flops.fp16 == 0);
  const Cost one = experts_kernel().cost(experts_problem("tokens=1,experts=128,top_k=8,hidden=64,intermediate=40"));
  CHECK(one.read_bytes == doctest::Approx(64 * 2 + 8 * 3 * 64 * 40 * 2 + 8 * 12));
  const Cost narrow =
      experts_kernel().cost(experts_problem("tokens=1,experts=128,top_k=8,hidden=256,intermediate=128,w=e4m3"));
  CHECK(narrow.read_bytes == doctest::Approx(256 + 2 * 4 + 8 * 3 * (256 * 128 + 2 * 4) + 8 * 12));
  CHECK(narrow.written_bytes == 256 * 2);
  CHECK(narrow.flops.e4m3 == 8.0 * 2 * 3 * 256 * 128);
  CHECK(narrow.flops.bf16 == 0);
}

TEST_CASE("moe_experts: as many experts are expected as routings have") {
  for (const char* skew : {"uniform", "zipf", "one"}) {
    for (const std::int64_t tokens : {1, 7, 64}) {
      const RoutingSizes sizes{tokens, 64, 4};
      double drawn = 0;
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const std::vector<std::int32_t> ids = draw_experts(sizes, skew, seed);
        drawn += static_cast<double>(std::set<std::int32_t>(ids.begin(), ids.end()).size()) / 50;
      }
      CAPTURE(skew);
      CAPTURE(tokens);
      const double expected = expected_experts(sizes, skew);
      CHECK(expected <= 1.03 * drawn);
      CHECK(expected >= (std::string(skew) == "zipf" ? 0.75 : 0.97) * drawn);
    }
  }
}

TEST_CASE("moe_experts: tensors of a server become extents and a call, and wrong ones are named") {
  const auto family =
      experts_kernel().family_interface(experts_problem("hidden=256,intermediate=64,top_k=2,experts=8,dtype=fp16"));
  TensorView x{DType::f16, {10, 256}, {264, 1}}, sorted{DType::i32, {40}, {1}}, offsets{DType::i32, {9}, {1}},
      inverse{DType::i32, {10, 2}, {2, 1}}, weights{DType::f32, {10, 2}, {2, 1}},
      up{DType::f16, {8, 128, 256}, {128 * 264, 264, 1}}, down{DType::f16, {8, 256, 64}, {256 * 64, 64, 1}},
      out{DType::f16, {10, 256}, {512, 1}};
  std::vector<const TensorView*> tensors = {&x, &sorted, &offsets, &inverse, &weights, &up, &down, &out};
  Extents extents;
  Call call;
  family->bind(tensors, "", extents, call);
  CHECK(extents == Extents{10});
  CHECK(call.integers[kMoeRow] == 264);
  CHECK(call.integers[kMoePlaces] == 40);
  CHECK(call.integers[kExpertsOutRow] == 512);
  CHECK(call.integers[kExpertsUpRow] == 264);
  CHECK(call.integers[kExpertsUpExpert] == 128 * 264);
  CHECK(call.integers[kExpertsDownRow] == 64);
  CHECK(call.integers[kExpertsDownExpert] == 256 * 64);
  const auto refused = [&](const char* why, const char* options = "") {
    CHECK_THROWS_WITH_AS(family->bind(tensors, options, extents, call), doctest::Contains(why), BadInput);
  };
  refused("there are none", "scale=2");
  up.dtype = DType::bf16;
  refused("'w_gate_up' is bf16; it must be f16");
  up.dtype = DType::f16;
  up.shape[1] = 64;
  refused("'w_gate_up' must be [8, 128, 256]");
  up.shape[1] = 128;
  down.strides[2] = 2;
  refused("'w_down' must be [8, 256, 64], the values of a row side by side");
  down.strides[2] = 1;
  out.shape[0] = 9;
  refused("'out' has 9 rows; it must have 10");
  out.shape[0] = 10;
  offsets.shape[0] = 8;
  refused("'offsets' has 8 elements; it must have 9");
}

TEST_CASE("moe_experts: scales are tensors of e4m3 alone") {
  const auto family =
      experts_kernel().family_interface(experts_problem("hidden=256,intermediate=128,top_k=2,experts=8,w=e4m3"));
  TensorView x{DType::e4m3, {10, 256}, {256, 1}}, sorted{DType::i32, {40}, {1}}, offsets{DType::i32, {9}, {1}},
      inverse{DType::i32, {10, 2}, {2, 1}}, weights{DType::f32, {10, 2}, {2, 1}},
      up{DType::e4m3, {8, 256, 256}, {256 * 256, 256, 1}}, down{DType::e4m3, {8, 256, 128}, {256 * 128, 128, 1}},
      out{DType::bf16, {10, 256}, {256, 1}}, x_scale{DType::f32, {10, 2}, {2, 1}},
      up_scale{DType::f32, {8, 2, 2}, {4, 2, 1}}, down_scale{DType::f32, {8, 2, 1}, {2, 1, 1}};
  std::vector<const TensorView*> tensors = {&x,    &sorted, &offsets, &inverse,  &weights,   &up,
                                            &down, &out,    &x_scale, &up_scale, &down_scale};
  Extents extents;
  Call call;
  CHECK_NOTHROW(family->bind(tensors, "", extents, call));
  x_scale.shape[1] = x_scale.strides[0] = 1;
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, call),
                       doctest::Contains("'x_scale' has 10 elements; it must have 20"), BadInput);
  x_scale.shape[1] = x_scale.strides[0] = 2;
  tensors.back() = nullptr;
  CHECK_THROWS_WITH_AS(family->bind(tensors, "", extents, call), doctest::Contains("'down_scale'"), BadInput);
}

TEST_CASE("moe_experts: no two configurations launch the same code in the same way, and there are hundreds") {
  for (const char* text :
       {"tokens=64", "tokens=4096,hidden=2880,top_k=4,experts=32,intermediate=2880", "tokens=7,hidden=4096,top_k=2"})
    check_launches_differ(experts_problem(text), 400);
  for (const char* text : {"tokens=64,part=up,out=places", "tokens=64,part=down,x=places", "tokens=64,out=places"})
    check_launches_differ(experts_problem(text), 200);
}

TEST_CASE("moe_experts: a usual problem has thousands of configurations") {
  const Kernel& kernel = experts_kernel();
  const auto preset = std::ranges::find(kernel.presets(), "qwen3-30b-a3b", &Preset::name);
  REQUIRE(preset != kernel.presets().end());
  DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const auto& [text, count] : {std::pair{"tokens=64", 1500}, {"tokens=4096", 3000}}) {
    const Problem problem = kernel.parse(text, &*preset);
    CHECK(shared_space(kernel.name()).enumerate(expression_environment(problem, limits)).size() >=
          static_cast<std::size_t>(count));
  }
}

// Blocks of whole row tiles, for the worst routing that fits.
TEST_CASE("moe_experts: a grid has a block for every tile that a routing could need") {
  const Problem problem = experts_problem("tokens=3,hidden=128,intermediate=128,experts=8,top_k=2,align=1");
  DeviceLimits limits = limits_of_architecture("sm_90a");
  const Config config = shared_space("moe_experts")
                            .parse_config(
                                "body=wgmma,rows=64,warps=4,depth=64,up_columns=32,up_stages=4,down_columns=64,"
                                "down_stages=4,residents=2,launches=3,weights=keep,schedule=grid",
                                nullptr);
  const Plan plan = experts_kernel().plan(config, problem, limits);
  REQUIRE(plan.launches.size() == 3);
  CHECK(plan.launches[0].grid[0] == 6 * 4);  // each of 6 slots with an expert of its own
  CHECK(plan.launches[1].grid[0] == 6 * 2);
  Call call = experts_kernel().default_call(problem);
  call.integers[kMoePlaces] = 400;  // whoever made the lists may have left room
  CHECK(experts_kernel().plan(config, problem, call, limits).launches[0].grid[0] == (400 + 6 * 63) / 64 * 4);
}

TEST_CASE("moe_experts: the C interface counts tensors and fields as the family does") {
  check_c_interface(experts_problem("w=e4m3"), {.tensors = {{MOETUNE_MOE_EXPERTS_X, "x"},
                                                            {MOETUNE_MOE_EXPERTS_SORTED, "sorted"},
                                                            {MOETUNE_MOE_EXPERTS_OFFSETS, "offsets"},
                                                            {MOETUNE_MOE_EXPERTS_INVERSE, "inverse"},
                                                            {MOETUNE_MOE_EXPERTS_WEIGHTS, "weights"},
                                                            {MOETUNE_MOE_EXPERTS_W_GATE_UP, "w_gate_up"},
                                                            {MOETUNE_MOE_EXPERTS_W_DOWN, "w_down"},
                                                            {MOETUNE_MOE_EXPERTS_OUT, "out"},
                                                            {MOETUNE_MOE_EXPERTS_X_SCALE, "x_scale"},
                                                            {MOETUNE_MOE_EXPERTS_GATE_UP_SCALE, "gate_up_scale"},
                                                            {MOETUNE_MOE_EXPERTS_DOWN_SCALE, "down_scale"},
                                                            {MOETUNE_MOE_EXPERTS_GATE_UP_BIAS, "gate_up_bias"},
                                                            {MOETUNE_MOE_EXPERTS_DOWN_BIAS, "down_bias"}},
                                                .integers = {{MOETUNE_MOE_EXPERTS_X_ROW, "x_row"},
                                                             {MOETUNE_MOE_EXPERTS_PLACES, "places"},
                                                             {MOETUNE_MOE_EXPERTS_OUT_ROW, "out_row"},
                                                             {MOETUNE_MOE_EXPERTS_UP_ROW, "up_row"},
                                                             {MOETUNE_MOE_EXPERTS_UP_EXPERT, "up_expert"},
                                                             {MOETUNE_MOE_EXPERTS_DOWN_ROW, "down_row"},
                                                             {MOETUNE_MOE_EXPERTS_DOWN_EXPERT, "down_expert"}},
                                                .reals = {}});
}
