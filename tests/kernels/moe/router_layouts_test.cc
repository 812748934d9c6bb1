// The layouts that the router's consumers take, on examples worked out by hand.
#include <doctest/doctest.h>

#include "kernels/moe/router_problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/kernel_checks.h"

namespace {

using namespace moetune;

using List = std::vector<double>;

// Of eight experts token t chooses chosen[t], best first.
HostTensors routed_by(const std::vector<std::vector<std::size_t>>& chosen, const std::string& text,
                      HostTensors inputs = {}) {
  const Kernel& kernel = find_kernel("router");
  const Problem problem = kernel.parse("experts=8,tokens=" + std::to_string(chosen.size()) +
                                       ",top_k=" + std::to_string(chosen.front().size()) + "," + text);
  kernel.check(problem);
  List& logits = inputs["logits"];
  for (const std::vector<std::size_t>& experts : chosen) {
    List row(8, -10);
    for (std::size_t j = 0; j < experts.size(); ++j) row[experts[j]] = 5 - static_cast<double>(j);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return answer_on_cpu(problem, inputs);
}

const std::vector<std::vector<std::size_t>> kThreeTokens = {{1, 2}, {2, 1}, {2, 7}};

}  // namespace

TEST_CASE("router layouts: vLLM's and SGLang's sorted_token_ids, expert_ids and num_tokens_post_padded") {
  const HostTensors out = routed_by(kThreeTokens, "align=4");
  CHECK(List(out.at("sorted").begin(), out.at("sorted").begin() + 12) ==
        List{0, 3, 6, 6, 1, 2, 4, 6, 5, 6, 6, 6});  // t * k + j, padded with T * k
  CHECK(List(out.at("block_experts").begin(), out.at("block_experts").begin() + 3) == List{1, 2, 7});
  CHECK(out.at("offsets").back() == 12);
}

TEST_CASE("router layouts: DeepGEMM's m_indices has the expert of each place, and -1 for padding") {
  const HostTensors out = routed_by(kThreeTokens, "align=4,layout=rows");
  CHECK(!out.contains("block_experts"));
  CHECK(List(out.at("row_experts").begin(), out.at("row_experts").begin() + 12) ==
        List{1, 1, -1, -1, 2, 2, 2, -1, 7, -1, -1, -1});
  for (std::size_t place = 12; place < out.at("row_experts").size(); ++place) CHECK(out.at("row_experts")[place] == -1);
  CHECK(out.at("row_experts").size() == out.at("sorted").size());
}

TEST_CASE("router layouts: torch._grouped_mm takes where each segment ends") {
  const HostTensors out = routed_by(kThreeTokens, "align=8,layout=ends");
  CHECK(out.at("ends") == List{0, 8, 16, 16, 16, 16, 16, 24});
  CHECK(out.at("offsets").size() == 9);
}

TEST_CASE("router layouts: DeepGEMM's masked layout has as many places for every expert") {
  const HostTensors out = routed_by(kThreeTokens, "layout=masked,segment=2,dropped=mask");
  CHECK(out.at("counts") == List{0, 2, 2, 0, 0, 0, 0, 1});
  CHECK(out.at("sorted") == List{6, 6, 0, 3, 1, 2, 6, 6, 6, 6, 6, 6, 6, 6, 5, 6});
  CHECK(out.at("inverse") == List{2, 4, 5, 3, -1, 14});
  CHECK(out.at("dropped") == List{0, 0, 0, 0, 1, 0});
  CHECK(!out.contains("offsets"));
  CHECK(!out.contains("block_experts"));
}

TEST_CASE("router layouts: a capacity below the segment's places holds") {
  const HostTensors out =
      routed_by({{3}, {3}, {3}, {3}}, "layout=masked,segment=3,capacity=400,dropped=mask");  // 4 * 4 / 8
  CHECK(out.at("counts") == List{0, 0, 0, 2, 0, 0, 0, 0});
  CHECK(out.at("dropped") == List{0, 0, 1, 1});
}

TEST_CASE("router layouts: slots of experts elsewhere are not dropped") {
  const HostTensors out = routed_by({{3, 4}, {3, 4}}, "align=1,capacity=50,map=local,dropped=mask",
                                    {{"expert_map", {-1, -1, -1, 0, -1, -1, -1, -1}}});
  CHECK(out.at("inverse") == List{0, -1, -1, -1});
  CHECK(out.at("dropped") == List{0, 0, 1, 0});
}

TEST_CASE("router layouts: DeepEP's ids of 64 bits, tokens per rank and is-token-in-rank") {
  const HostTensors out = routed_by({{1, 2}, {3, 2}, {2, 7}, {5, 6}}, "outputs=ranks,ranks=4,ids=i64");
  CHECK(out.at("ids") == List{1, 2, 3, 2, 2, 7, 5, 6});
  CHECK(out.at("counts") == List{0, 1, 3, 1, 0, 1, 1, 1});
  CHECK(out.at("tokens_per_rank") == List{1, 3, 1, 2});
  CHECK(out.at("in_rank") == List{1, 1, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, 1, 0, 1, /**/ 0, 0, 1, 1});
  CHECK(!out.contains("sorted"));
}

TEST_CASE("router layouts: tokens that are not routed go to no rank") {
  const HostTensors out = routed_by({{1}, {2}, {3}}, "outputs=ranks,ranks=2,count=device", {{"token_count", {1}}});
  CHECK(out.at("tokens_per_rank") == List{1, 0});
  CHECK(out.at("in_rank") == List{1, 0, 0, 0, 0, 0});
  CHECK(out.at("counts") == List{0, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("router layouts: each family has the tensors of its layout, in their types") {
  const Kernel& kernel = find_kernel("router");
  const auto present = [&](const std::string& text) {
    std::string names;
    const Problem problem = kernel.parse(text);
    const auto family = kernel.family_interface(problem);
    for (const TensorSlot& slot : family->tensors()) {
      if (slot.present && slot.role == Role::output)
        names += std::string(slot.name.text()) + ":" + std::string(dtype_name(slot.dtype)) + " ";
    }
    return names;
  };
  const std::string always = "ids:i32 weights:f32 ", plan = "counts:i32 offsets:i32 sorted:i32 inverse:i32 ";
  CHECK(present("") == always + plan + "block_experts:i32 ");
  CHECK(present("layout=rows") == always + plan + "row_experts:i32 ");
  CHECK(present("layout=ends,dropped=mask,capacity=100") == always + plan + "ends:i32 dropped:u8 ");
  CHECK(present("layout=masked,segment=16") == always + "counts:i32 sorted:i32 inverse:i32 ");
  CHECK(present("outputs=weights,ids=i64") == "ids:i64 weights:f32 ");
  CHECK(present("outputs=ranks,ranks=8,ids=i64") == "ids:i64 weights:f32 counts:i32 tokens_per_rank:i32 in_rank:u8 ");
}

TEST_CASE("router layouts: no two configurations launch the same code in the same way") {
  for (const char* text : {"tokens=512,outputs=ranks,ranks=8,ids=i64", "tokens=600,layout=masked,segment=64",
                           "tokens=600,layout=rows,dropped=mask,capacity=125"})
    check_launches_differ(find_kernel("router").parse(text), 200);
}
