// Families, extents and calls of prefill_attention: what is compiled in, what a launch chooses, what the caller lays
// out.
#include "kernels/prefill_attention/call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "include/moetune.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/kernel_checks.h"
#include "tests/kernels/prefill_attention/fixture.h"
#include "tests/kernels/random_prefill_call.h"

namespace moetune::prefill_attention_call_test {
using namespace prefill_attention_tests;

namespace {

// The message of a call that is refused; "" if it is not.
std::string refusal(const Problem& of, const char* field, double value) {
  return call_refusal(kernel(), of, field, value);
}

}  // namespace

TEST_CASE("a family of prefill_attention is what is compiled in, and gives its problems back") {
  for (const char* text : kPrefillFamilies) {
    const Problem of = problem(text);
    const Assignment family = kernel().specialization(of);
    CHECK(kernel().specialization(kernel().problem_of(family, {3, 5, 77, 777})) == family);
    const Problem other = kernel().problem_of(family, kernel().extents_of(of));
    for (const char* name : {"batch", "q_heads", "kv_heads", "seqlen_q", "seqlen_kv", "page", "causal"})
      CHECK(other[name] == of[name]);
  }
  const Assignment family = kernel().specialization(problem("page=16"));
  CHECK(family.text() == "group=4,head_dim=128,causal=1,window=0,sinks=none,page=16,dtype=bf16,lse=none");
  const Assignment narrow = kernel().specialization(problem("kv_dtype=e4m3"));
  CHECK(narrow.text() ==
        "group=4,head_dim=128,causal=1,window=0,sinks=none,page=0,dtype=bf16,lse=none,kv_dtype=e4m3,kv_scale=tensor");
  CHECK(kernel().problem_of(narrow, {1, 8, 4096, 4096}) == problem("kv_dtype=e4m3"));
  const auto refused = [&](const Assignment& of, const Extents& extents) {
    CHECK_THROWS_AS(kernel().problem_of(of, extents), BadInput);
  };
  refused(family, {0, 1, 1, 1});
  refused(family, {1, 1, 1});
  refused(family, {1, 1, 2, 1});
  refused(family, {1, std::int64_t{1} << 62, 1, 1});
  refused({}, {1, 1, 1, 1});
  refused({{"group", Value::integer(8)}, {"paeg", Value::integer(16)}}, {1, 1, 1, 1});
}

TEST_CASE("problems of one family of prefill_attention compile to one unit, whatever the call") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text : kPrefillFamilies) {
    const Problem of = problem(text);
    const LegalSpace legal = space().enumerate(expression_environment(of, limits));
    RandomPrefills members(kernel(), of, 3000, 11);
    std::mt19937_64 random(5);
    for (int i = 0; i < 40; ++i) {
      const Config config = legal.config(static_cast<ConfigId>(random() % legal.size()));
      const FamilyMember member = members.next();
      CHECK_NOTHROW(kernel().check_call(member.problem, member.call));
      CHECK(kernel().launcher(config, member.problem, limits)->unit() == kernel().launcher(config, of, limits)->unit());
    }
  }
}

TEST_CASE("a call of prefill_attention is read back from its fields, and layouts do not change the answer") {
  for (const char* text : kPrefillFamilies) {
    RandomPrefills members(kernel(), problem(text), 40, 3);
    for (int i = 0; i < 6; ++i) {
      const FamilyMember member = members.next();
      CAPTURE(member.problem.text());
      CHECK(PrefillCall(member.call).call() == member.call);
      const PrefillShape shape(member.problem);
      const PrefillCall call(member.call);
      const HostTensors inputs = host_inputs(member.problem, member.call, 2);
      const HostTensors right = answer_on_cpu(member.problem, member.call, inputs);
      const std::int64_t tokens = static_cast<std::int64_t>(inputs.at("q_offsets").back());
      double written = 0;
      for (const double value : right.at("o")) written += !std::isnan(value);
      CHECK(written == static_cast<double>(tokens * shape.q_heads * shape.head_dim));
      if (shape.lse) CHECK(right.at("lse").size() == static_cast<std::size_t>(call.q_tokens * shape.q_heads));
    }
  }
}

TEST_CASE("a call of prefill_attention that no kernel could run is refused with the field") {
  const Problem of = problem("seqlen_q=100,seqlen_kv=300"), paged = problem("seqlen_q=100,seqlen_kv=300,page=64");
  CHECK(refusal(of, "q_token_stride", 4096) == "");
  CHECK(refusal(of, "q_token_stride", 0).find("q_token_stride=0 elements; it must be positive") != std::string::npos);
  CHECK(refusal(of, "q_head_stride", 132).find("multiple of 8 (16 bytes)") != std::string::npos);
  CHECK(refusal(of, "k_token_stride", 0x1p40).find("less than 2^40 bytes") != std::string::npos);
  CHECK(refusal(of, "o_head_stride", 64).find("the strides of o let rows overlap") != std::string::npos);
  CHECK(refusal(of, "q_tokens", 0).find("q_tokens=0 is out of range") != std::string::npos);
  CHECK(refusal(of, "kv_blocks", 2).find("kv_blocks=2 is out of range (from 1 to 1)") != std::string::npos);
  CHECK(refusal(of, "capacity", 0).find("capacity=0") != std::string::npos);
  CHECK(refusal(of, "capacity", 7) == "");  // offsets are cut to it
  CHECK(refusal(of, "v_offset", 4).find("v_offset=4 is not a multiple of 16 bytes") != std::string::npos);
  for (const double scale : {0.0, -1.0, 1e-50, 1e38})
    CHECK(refusal(of, "scale", scale).find("it must be positive, from 2^-100") != std::string::npos);
  CHECK(refusal(of, "k_block_stride", 0) == "");  // contiguous: there is one block
  CHECK(refusal(of, "v_block_stride", -5) == "");
  CHECK(refusal(paged, "k_block_stride", 0).find("k_block_stride=0 elements") != std::string::npos);
  CHECK(refusal(of, "q_head_stride", 0x1p38).find("q_head_stride times the heads of a KV head") != std::string::npos);
  PrefillCall wide(kernel().default_call(of));
  wide.q_tokens = std::int64_t{1} << 30;
  wide.o.token = std::int64_t{1} << 38;
  CHECK_THROWS_WITH_AS(kernel().check_call(of, wide.call()), doctest::Contains("make o span more than 2^56"), BadInput);
  CHECK(refusal(paged, "capacity", 256).find("capacity=256 is out of range (from 300") != std::string::npos);
  CHECK(refusal(paged, "capacity", 330).find("capacity=330 is not a multiple of page=64") != std::string::npos);
  CHECK(refusal(paged, "page_table_stride", 3).find("page_table_stride=3") != std::string::npos);
}

TEST_CASE("the C interface numbers prefill_attention's tensors and fields as the kernel does") {
  check_c_interface(problem("lse=natural,sinks=learned"),
                    {.tensors = {{MOETUNE_PREFILL_Q, "q"},
                                 {MOETUNE_PREFILL_K, "k"},
                                 {MOETUNE_PREFILL_V, "v"},
                                 {MOETUNE_PREFILL_Q_OFFSETS, "q_offsets"},
                                 {MOETUNE_PREFILL_KV_OFFSETS, "kv_offsets"},
                                 {MOETUNE_PREFILL_KV_LENGTHS, "kv_lengths"},
                                 {MOETUNE_PREFILL_PAGE_TABLE, "page_table"},
                                 {MOETUNE_PREFILL_O, "o"},
                                 {MOETUNE_PREFILL_LSE, "lse"},
                                 {MOETUNE_PREFILL_SINKS, "sinks"},
                                 {MOETUNE_PREFILL_K_SCALE, "k_scale"},
                                 {MOETUNE_PREFILL_V_SCALE, "v_scale"},
                                 {MOETUNE_PREFILL_Q_SCALE, "q_scale"}},
                     .integers = {{MOETUNE_PREFILL_Q_TOKEN_STRIDE, "q_token_stride"},
                                  {MOETUNE_PREFILL_Q_HEAD_STRIDE, "q_head_stride"},
                                  {MOETUNE_PREFILL_O_TOKEN_STRIDE, "o_token_stride"},
                                  {MOETUNE_PREFILL_O_HEAD_STRIDE, "o_head_stride"},
                                  {MOETUNE_PREFILL_K_BLOCK_STRIDE, "k_block_stride"},
                                  {MOETUNE_PREFILL_K_HEAD_STRIDE, "k_head_stride"},
                                  {MOETUNE_PREFILL_K_TOKEN_STRIDE, "k_token_stride"},
                                  {MOETUNE_PREFILL_V_BLOCK_STRIDE, "v_block_stride"},
                                  {MOETUNE_PREFILL_V_HEAD_STRIDE, "v_head_stride"},
                                  {MOETUNE_PREFILL_V_TOKEN_STRIDE, "v_token_stride"},
                                  {MOETUNE_PREFILL_V_OFFSET, "v_offset"},
                                  {MOETUNE_PREFILL_Q_TOKENS, "q_tokens"},
                                  {MOETUNE_PREFILL_BLOCKS, "kv_blocks"},
                                  {MOETUNE_PREFILL_CAPACITY, "capacity"},
                                  {MOETUNE_PREFILL_PAGE_TABLE_STRIDE, "page_table_stride"}},
                     .reals = {{MOETUNE_PREFILL_SCALE, "scale"}}});
}

TEST_CASE(
    "prefill_attention's place in a table: sequences times KV heads, new tokens, and tokens; even if nearly full") {
  const auto family = kernel().family_interface(problem("batch=4,seqlen_q=512,seqlen_kv=2048"));
  const auto at = [](std::int64_t first, std::int64_t second, std::int64_t third) {
    TablePoint point;
    point.position = {first, second, third};
    return point;
  };
  CHECK(family->table_point({4, 8, 512, 2048}, 2048).position == at(4 * 8, 512, 2048).position);
  CHECK_FALSE(family->table_point({64, 8, 16, 16}, 1024).position ==
              family->table_point({1, 8, 1024, 1024}, 1024).position);
  CHECK_FALSE(family->table_point({4, 8, 512, 2048}, 2048).ragged);
  CHECK_FALSE(family->table_point({4, 8, 512, 2048}, 1850).ragged);
  CHECK(family->table_point({4, 8, 512, 2048}, 1800).ragged);
  CHECK(family->table_point({4, 8, 512, 2048}, 0).ragged);
  CHECK_FALSE(family->table_point({1, 8, 512, 2048}, 0).ragged);
  const Problem full = problem("batch=16,seqlen_q=512,seqlen_kv=2048");
  Problem ragged = full;
  family->make_ragged(ragged);
  CHECK_FALSE(family->table_point_of(full).ragged);
  CHECK(family->table_point_of(ragged).ragged);

  // Back: with as many KV heads as asked for, and no fewer tokens than new ones.
  const auto is = [&](const TablePoint& point, const Extents& like, const Extents& right) {
    const Extents extents = family->extents_at(point, like);
    CHECK(extents == right);
    CHECK_NOTHROW(family->check(extents));
  };
  is(at(4 * 8, 512, 2048), {4, 8, 1, 1}, {4, 8, 512, 2048});
  is(at(4 * 8, 512, 2048), {1, 16, 1, 1}, {2, 16, 512, 2048});
  is(at(4 * 8, 512, 100), {1, 8, 1, 1}, {4, 8, 512, 512});
  is(at(3, 1, 100), {64, 8, 1, 1}, {1, 3, 1, 100});
  is(at(17, 1, 100), {64, 8, 1, 1}, {3, 8, 1, 100});
}

}  // namespace moetune::prefill_attention_call_test
