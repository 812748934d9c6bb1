// The router's ways to select experts, on the CPU: ties and odd values, against the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/answers/answers.h"
#include "tests/simt/routed_problem.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("simt: of equal logits the lower id comes first, whatever the type") {
  for (const char* const others : {"experts=100,top_k=7", "experts=16,top_k=16"}) {
    CAPTURE(others);
    SimtProblem routed = routed_problem(std::string("tokens=12,dtype=bf16,align=1,") + others);
    routed.edit = [](SimtTensors& tensors) {
      std::vector<std::uint8_t>& bytes = tensors.bytes("logits");
      auto* const logits = reinterpret_cast<std::uint16_t*>(bytes.data());
      const std::uint16_t few[] = {0x3f80, 0x3f81, 0xbf80, 0x3f80};  // 1, a little more, -1, 1
      for (std::size_t i = 0; i < bytes.size() / 2; ++i) logits[i] = few[i * i / 5 % 4];
    };
    const HostTensors right = routed.reference(Reference::exact);
    const std::vector<double> values = widened(DType::bf16, routed.tensors().bytes("logits"));
    const auto experts = static_cast<std::size_t>(routed.problem["experts"]),
               top_k = static_cast<std::size_t>(routed.problem["top_k"]);
    for (std::size_t slot = 1; slot < right.at("ids").size(); ++slot) {
      if (slot % top_k == 0) continue;
      const auto logit = [&](std::size_t s) {
        return values[s / top_k * experts + static_cast<std::size_t>(right.at("ids")[s])];
      };
      CHECK(logit(slot - 1) >= logit(slot));
      if (logit(slot - 1) == logit(slot)) CHECK(right.at("ids")[slot - 1] < right.at("ids")[slot]);
    }
    for (const Config& config : routed.sample(simt_sample(4), Rules::all)) {
      CAPTURE(config.text());
      check_outputs(routed.run(config, 7), right, is_right_routing);
    }
  }
}

TEST_CASE("simt: of logits and biases of +0 and -0 the lower id comes first, whatever selects") {
  const float few[] = {-0.0f, 0.0f, -1.0f, 0.0f, -0.0f};
  for (const char* const others :
       {"top_k=7", "top_k=9,score=topk_softmax", "top_k=16,score=topk_softmax,bias=correction",
        "top_k=6,score=topk_softmax,groups=8,groups_kept=4", "top_k=5,score=sigmoid,bias=correction",
        "top_k=8,score=softmax,bias=correction,groups=16,groups_kept=8"}) {
    CAPTURE(others);
    SimtProblem routed = routed_problem(std::string("tokens=9,experts=64,outputs=weights,") + others);
    routed.edit = [&](SimtTensors& tensors) {
      auto* const logits = reinterpret_cast<float*>(tensors.bytes("logits").data());
      for (std::size_t i = 0; i < 9 * 64; ++i) logits[i] = few[i * i / 3 % 5];
      if (!routed.problem.is("bias", "correction")) return;
      auto* const bias = reinterpret_cast<float*>(tensors.bytes("bias").data());
      for (std::size_t i = 0; i < 64; ++i) bias[i] = few[i * i / 7 % 2];
    };
    SimtTensors tensors = routed.tensors();
    HostTensors inputs;
    for (const auto& [name, ignored] : tensors.inputs()) inputs[name] = widened(DType::f32, tensors.bytes(name));
    const std::vector<double> right = answer_on_cpu(routed.problem, routed.call, inputs).at("ids");
    CHECK(routed.reference(Reference::exact).at("ids") == right);
    for (const char* const select : {"rounds", "reduce", "merge", "radix", "elect"}) {
      CAPTURE(select);
      const Config config =
          shared_space("router").parse_config(std::string("schedule=rows,cluster=1,lanes=32,vector=2,rows=1,"
                                                          "warps=2,dependents=early,pad=last,blocks_per_sm=1,select=") +
                                              select);
      CHECK(routed.run(config, 3).at("ids") == right);
    }
  }
}

TEST_CASE("simt: every way to select, of logits that differ, that are few and that are all equal") {
  for (const char* const sizes :
       {"experts=8,top_k=8", "experts=33,top_k=5", "experts=256,top_k=8", "experts=512,top_k=16", "experts=509,top_k=1",
        "experts=896,top_k=22", "experts=1023,top_k=32"}) {
    for (const int values : {0, 3, 1}) {  // 0: as they are made
      CAPTURE(sizes);
      CAPTURE(values);
      SimtProblem routed = routed_problem(std::string("tokens=6,outputs=weights,") + sizes);
      routed.edit = [&](SimtTensors& tensors) {
        std::vector<std::uint8_t>& bytes = tensors.bytes("logits");
        auto* const logits = reinterpret_cast<float*>(bytes.data());
        for (std::size_t i = 0; values > 0 && i < bytes.size() / sizeof(float); ++i)
          logits[i] = static_cast<float>(i * i / 7 % static_cast<std::size_t>(values)) - 1;
      };
      const HostTensors right = routed.reference(Reference::exact);
      for (const char* const select : {"rounds", "reduce", "merge", "radix"}) {
        CAPTURE(select);
        const Config config = shared_space("router").parse_config(
            std::string("schedule=rows,cluster=1,lanes=32,vector=1,rows=1,"
                        "warps=2,dependents=early,pad=last,blocks_per_sm=1,select=") +
            select);
        check_outputs(routed.run(config, 2), right, is_right_routing);
      }
    }
  }
}

TEST_CASE("simt: an election among lists of every length, with and without groups, whatever the logits") {
  struct Case {
    const char* problem;
    int vector;
  };
  const float odd[] = {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                       3e38f};
  const char* const dependents[] = {"early", "loaded", "selected"};  // in turn: each is a program to compile
  std::size_t turn = 0;
  for (const Case& one :
       {Case{"experts=32,top_k=16", 1}, Case{"experts=64,top_k=3,renormalize=no", 2},
        Case{"experts=96,top_k=6,score=sigmoid", 1}, Case{"experts=128,top_k=1,score=topk_softmax,bias=correction", 4},
        Case{"experts=256,top_k=16,score=softmax,bias=correction", 4},
        Case{"experts=384,top_k=8,score=sigmoid,bias=correction", 4},
        Case{"experts=512,top_k=10,score=sqrt_softplus,ids=i64", 2},
        Case{"experts=1024,top_k=32,score=sigmoid,bias=correction", 4},
        Case{"experts=896,top_k=22,score=sqrt_softplus", 4},
        Case{"experts=256,top_k=8,score=sigmoid,bias=correction,groups=8,groups_kept=4", 4},
        Case{"experts=256,top_k=5,score=softmax,groups=32,groups_kept=4", 2},
        Case{"experts=512,top_k=8,score=topk_softmax,groups=2,groups_kept=1", 4},
        Case{"experts=128,top_k=4,score=sqrt_softplus,bias=correction,groups=4,groups_kept=3", 4}}) {
    for (const int values : {0, 3, 1, -1}) {  // as they are made, few, all equal, and odd ones among the rest
      CAPTURE(one.problem);
      CAPTURE(values);
      SimtProblem routed = routed_problem(std::string("tokens=11,outputs=weights,") + one.problem);
      routed.edit = [&](SimtTensors& tensors) {
        std::vector<std::uint8_t>& bytes = tensors.bytes("logits");
        auto* const logits = reinterpret_cast<float*>(bytes.data());
        for (std::size_t i = 0; values != 0 && i < bytes.size() / sizeof(float); ++i) {
          if (values > 0) logits[i] = static_cast<float>(i * i / 7 % static_cast<std::size_t>(values)) - 1;
          if (values < 0 && i * i % 5 < 2) logits[i] = odd[i * i / 11 % 4];
        }
      };
      const HostTensors right = routed.reference(Reference::exact);
      const Config config = shared_space("router").parse_config(
          std::string("schedule=rows,cluster=1,select=elect,lanes=32,rows=1,warps=2,pad=last,"
                      "blocks_per_sm=1,dependents=") +
          dependents[turn % 3] + ",vector=" + std::to_string(one.vector));
      CAPTURE(config.text());
      check_outputs(routed.run(config, 4), right, is_right_routing);
    }
    ++turn;
  }
}

TEST_CASE("simt: of equal candidates in one lane, in one list and in two lists the lower id is elected") {
  for (const char* const others :
       {"experts=384,top_k=12", "experts=512,top_k=16", "experts=256,top_k=16,score=sigmoid,groups=8,groups_kept=4"}) {
    CAPTURE(others);
    SimtProblem routed = routed_problem(std::string("tokens=8,dtype=bf16,outputs=weights,") + others);
    const auto experts = static_cast<std::size_t>(routed.problem["experts"]),
               top_k = static_cast<std::size_t>(routed.problem["top_k"]);
    // All 0, and from an expert of each token's own on as many as are selected are 1, the fourth of them 2.
    const auto first = [&](std::size_t token) { return token * 29 % (experts / 8 - top_k); };
    routed.edit = [&](SimtTensors& tensors) {
      std::vector<std::uint8_t>& bytes = tensors.bytes("logits");
      auto* const logits = reinterpret_cast<std::uint16_t*>(bytes.data());
      std::fill_n(logits, bytes.size() / 2, std::uint16_t{0});
      for (std::size_t t = 0; t < 8; ++t) {
        std::fill_n(logits + t * experts + first(t), top_k, std::uint16_t{0x3f80});
        logits[t * experts + first(t) + 3] = 0x4000;
      }
    };
    std::vector<double> ids;
    for (std::size_t t = 0; t < 8; ++t) {
      ids.push_back(static_cast<double>(first(t) + 3));
      for (std::size_t j = 0; j < top_k; ++j) {
        if (j != 3) ids.push_back(static_cast<double>(first(t) + j));
      }
    }
    for (const char* const vector : {"1", "2", "4"}) {
      const Config config = shared_space("router").parse_config(
          std::string("schedule=rows,cluster=1,select=elect,lanes=32,rows=2,warps=2,pad=last,"
                      "blocks_per_sm=1,dependents=early,vector=") +
          vector);
      CHECK(routed.run(config, 6).at("ids") == ids);
    }
  }
}
