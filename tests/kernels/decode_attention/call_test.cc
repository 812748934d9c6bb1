// Families, extents and calls of decode_attention: what is compiled in, what a launch chooses, what the caller
// lays out.
#include "kernels/decode_attention/call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/error.h"
#include "include/moetune_kernels.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/decode_attention/fixture.h"
#include "tests/kernels/kernel_checks.h"
#include "tests/kernels/random_call.h"
#include "tests/sanitized.h"

namespace moetune::decode_attention_call_test {
using namespace decode_attention_tests;

namespace {

Config default_config(const Problem& of, const DeviceLimits& limits) {
  return space().default_config(expression_environment(of, limits)).value();
}

HostTensors host_inputs(const FamilyMember& member, std::uint64_t seed) {
  HostTensors inputs;
  const std::vector<Buffer> buffers = kernel().buffers(member.problem, member.call, seed);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == Role::input) inputs[buffers[i].name] = host_values(buffers[i], seed, fill_stream(i, 0));
  }
  return inputs;
}

// The message of a call that is refused; "" if it is not.
std::string refusal(const Problem& of, const char* field, double value) {
  return call_refusal(kernel(), of, field, value);
}

}  // namespace

TEST_CASE("a family is what is compiled in, and gives its problems back") {
  for (const char* text : kFamilies) {
    const Problem of = problem(text);
    const Assignment family = kernel().specialization(of);
    CHECK(kernel().specialization(kernel().problem_of(family, {3, 5, 777})) == family);
    const Problem other = kernel().problem_of(family, kernel().extents_of(of));
    for (const char* name : {"batch", "q_heads", "kv_heads", "context", "page"}) CHECK(other[name] == of[name]);
  }
  const Assignment family = kernel().specialization(problem("page=16"));
  CHECK(family.text() ==
        "group=8,head_dim=128,dtype=bf16,page=16,window=0,sinks=none,q_len=1,lse=none,kv_dtype=same,"
        "kv_scale=tensor");
  CHECK_THROWS_AS(kernel().problem_of(family, {0, 1, 1}), BadInput);
  CHECK_THROWS_AS(kernel().problem_of(family, {1, 1}), BadInput);
  CHECK_THROWS_AS(kernel().problem_of({}, {1, 1, 1}), BadInput);
  CHECK_THROWS_AS(kernel().problem_of({{"group", Value::integer(8)}, {"paeg", Value::integer(16)}}, {1, 1, 1}),
                  BadInput);
  CHECK_THROWS_AS(kernel().problem_of(family, {1, std::int64_t{1} << 62, 1}), BadInput);
}

TEST_CASE("problems of one family compile to one unit, whatever the call") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text : kFamilies) {
    const Problem of = problem(text);
    const LegalSpace legal = space().enumerate(expression_environment(of, limits));
    RandomMembers members(kernel(), of, 3000, 11);
    std::mt19937_64 random(5);
    for (int i = 0; i < 40; ++i) {
      const Config config = legal.config(static_cast<ConfigId>(random() % legal.size()));
      const FamilyMember member = members.next();
      CHECK(kernel().launcher(config, member.problem, limits)->unit() == kernel().launcher(config, of, limits)->unit());
    }
  }
}

TEST_CASE("a call as servers make it is accepted, and what no row uses is NaN") {
  for (const char* text : kFamilies) {
    RandomMembers members(kernel(), problem(text), 60, 3);
    for (int i = 0; i < (kSanitized ? 2 : 8); ++i) {
      const FamilyMember member = members.next();
      CAPTURE(member.problem.text());
      REQUIRE_NOTHROW(kernel().check_call(member.problem, member.call));
      const HostTensors inputs = host_inputs(member, 4);
      const DecodeShape shape(member.problem);
      const DecodeCall call(member.call);
      const auto used = [](const std::vector<double>& values) {
        return std::count_if(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
      };
      CHECK(used(inputs.at("q")) == shape.query_rows() * shape.head_dim);
      std::int64_t tokens = 0;
      for (const std::int64_t length : shape.lengths()) tokens += length - shape.first_visible(length);
      const std::int64_t expected = tokens * shape.kv_heads * shape.head_dim;
      if (call.v_offset > 0) {
        CHECK(inputs.count("v") == 0);
        CHECK(used(inputs.at("k")) == 2 * expected);
      } else {
        CHECK(used(inputs.at("k")) == expected);
        CHECK(used(inputs.at("v")) == expected);
      }
      const std::vector<double> o = answer_on_cpu(member.problem, member.call, inputs).at("o");
      CHECK(used(o) == shape.query_rows() * shape.head_dim);
      CHECK(static_cast<std::int64_t>(o.size()) == call.row_elements(call.o, shape));
    }
  }
}

TEST_CASE("the launches of a call name every field of it, and tensor maps that the copy engine takes") {
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* text : kFamilies) {
    const Problem of = problem(text);
    RandomMembers members(kernel(), of, 3000, 7);
    for (int i = 0; i < 30; ++i) {
      const FamilyMember member = members.next();
      const DecodeCall call(member.call);
      const DecodeShape shape(member.problem);
      const Plan plan = kernel().plan(default_config(of, limits), member.problem, member.call, limits);
      std::set<std::string> names;
      for (const Argument& argument : plan.launches[0].arguments) {
        names.insert(argument.name.text());
        const auto* map = std::get_if<TensorMap>(&argument.value);
        if (map == nullptr) continue;
        const KvStrides& strides = argument.name.view() == "k_map" ? call.k : call.v;
        const std::int64_t size = dtype_bytes(shape.kv_dtype());
        CHECK(map->dims[1] == static_cast<std::uint64_t>(call.tokens_per_block(shape)));
        CHECK(map->dims[4] == static_cast<std::uint64_t>(call.blocks));
        CHECK(map->strides[0] == static_cast<std::uint64_t>(strides.token * size));
        CHECK(map->strides[3] == static_cast<std::uint64_t>(strides.block * size));
        for (const std::uint64_t stride : map->strides) CHECK(stride % 16 == 0);
        CHECK(map->offset % 16 == 0);
      }
      for (const char* field : {"q_sequence_stride", "q_token_stride", "q_head_stride", "o_sequence_stride",
                                "o_token_stride", "o_head_stride", "page_table_stride", "capacity", "scale_log2"})
        CHECK_MESSAGE(names.count(field) == 1, field);
    }
  }
}

TEST_CASE("calls that no kernel can run are refused with the field and what would be right") {
  const Problem paged = problem("batch=4,context=1000,page=16"), contiguous = problem("batch=4,context=1000");
  CHECK(refusal(paged, "scale", 0.1) == "");
  CHECK(refusal(paged, "scale", 0).find("scale is 0; it must be positive") != std::string::npos);
  CHECK(refusal(paged, "scale", std::nan("")).find("scale") != std::string::npos);
  CHECK(refusal(paged, "q_token_stride", 8193).find("multiple of 8 (16 bytes)") != std::string::npos);
  CHECK(refusal(paged, "k_block_stride", 0).find("k_block_stride=0 elements; it must be positive") !=
        std::string::npos);
  CHECK(refusal(paged, "v_head_stride", 1e12).find("too large") != std::string::npos);
  CHECK(refusal(paged, "o_head_stride", 64).find("overlap") != std::string::npos);
  CHECK(refusal(paged, "v_offset", -16).find("v_offset") != std::string::npos);
  CHECK(refusal(paged, "capacity", 992).find("capacity=992 is out of range (from 1000") != std::string::npos);
  CHECK(refusal(paged, "capacity", 1001).find("not a multiple of page=16") != std::string::npos);
  CHECK(refusal(paged, "page_table_stride", 60).find("page_table_stride=60 is out of range") != std::string::npos);
  CHECK(refusal(paged, "kv_settled", 1) == "");
  CHECK(refusal(paged, "kv_settled", 2).find("kv_settled=2 is out of range (from 0 to 1)") != std::string::npos);
  CHECK(refusal(paged, "kv_blocks", 0).find("kv_blocks=0") != std::string::npos);
  CHECK(refusal(contiguous, "kv_blocks", 3).find("kv_blocks=3 is out of range (from 4") != std::string::npos);
  Call call;
  CHECK_THROWS_WITH_AS(set_field(call, kernel().call_schema(), "scael", 1), doctest::Contains("scale"), BadInput);
  for (const double value : {0.5, std::nan(""), HUGE_VAL, 1e18}) {
    CHECK_THROWS_WITH_AS(set_field(call, kernel().call_schema(), "capacity", value),
                         doctest::Contains("a call's capacity takes a whole number"), BadInput);
  }
}

TEST_CASE("the caller's word on KV is a bit of a launch's arguments, and changes nothing else of it") {
  const Problem of = problem("batch=4,context=1000,page=16");
  const DeviceLimits limits = limits_of_architecture("sm_90a");
  for (const char* const l2 : {"l2=normal", "l2=evict_first"}) {
    const Config usual = default_config(of, limits), config = space().parse_config(l2, &usual);
    DecodeCall call{DecodeShape(of)};
    const Plan before = kernel().plan(config, of, call.call(), limits);
    Call said = call.call();
    set_assumption(said, kernel().call_schema(), kernel().name(), "kv_settled");
    call.kv_settled = 1;
    CHECK(said == call.call());
    Plan settled = kernel().plan(config, of, said, limits);
    CHECK(settled != before);
    for (Argument& argument : settled.launches[0].arguments) {
      if (argument.name.view() == "evict_first") std::get<std::int32_t>(argument.value) -= 2;
    }
    CHECK(settled == before);
  }
}

TEST_CASE("the C interface numbers decode_attention's tensors and fields as the kernel does") {
  check_c_interface(problem("page=16,lse=natural,sinks=learned,kv_dtype=e4m3"),
                    {.tensors = {{MOETUNE_DECODE_Q, "q"},
                                 {MOETUNE_DECODE_K, "k"},
                                 {MOETUNE_DECODE_V, "v"},
                                 {MOETUNE_DECODE_PAGE_TABLE, "page_table"},
                                 {MOETUNE_DECODE_LENGTHS, "lengths"},
                                 {MOETUNE_DECODE_O, "o"},
                                 {MOETUNE_DECODE_LSE, "lse"},
                                 {MOETUNE_DECODE_SINKS, "sinks"},
                                 {MOETUNE_DECODE_K_SCALE, "k_scale"},
                                 {MOETUNE_DECODE_V_SCALE, "v_scale"}},
                     .integers = {{MOETUNE_DECODE_Q_SEQUENCE_STRIDE, "q_sequence_stride"},
                                  {MOETUNE_DECODE_Q_TOKEN_STRIDE, "q_token_stride"},
                                  {MOETUNE_DECODE_Q_HEAD_STRIDE, "q_head_stride"},
                                  {MOETUNE_DECODE_O_SEQUENCE_STRIDE, "o_sequence_stride"},
                                  {MOETUNE_DECODE_O_TOKEN_STRIDE, "o_token_stride"},
                                  {MOETUNE_DECODE_O_HEAD_STRIDE, "o_head_stride"},
                                  {MOETUNE_DECODE_K_BLOCK_STRIDE, "k_block_stride"},
                                  {MOETUNE_DECODE_K_HEAD_STRIDE, "k_head_stride"},
                                  {MOETUNE_DECODE_K_TOKEN_STRIDE, "k_token_stride"},
                                  {MOETUNE_DECODE_V_BLOCK_STRIDE, "v_block_stride"},
                                  {MOETUNE_DECODE_V_HEAD_STRIDE, "v_head_stride"},
                                  {MOETUNE_DECODE_V_TOKEN_STRIDE, "v_token_stride"},
                                  {MOETUNE_DECODE_V_OFFSET, "v_offset"},
                                  {MOETUNE_DECODE_BLOCKS, "kv_blocks"},
                                  {MOETUNE_DECODE_CAPACITY, "capacity"},
                                  {MOETUNE_DECODE_PAGE_TABLE_STRIDE, "page_table_stride"},
                                  {MOETUNE_DECODE_KV_SETTLED, "kv_settled"}},
                     .reals = {{MOETUNE_DECODE_SCALE, "scale"}}});
}

TEST_CASE("a call whose offsets pass 64 bits is refused, not wrapped around") {
  const Problem of = problem("batch=4,context=1000,page=16");
  DecodeCall call{DecodeShape(of)};
  call.v_offset = std::int64_t{1} << 62;
  CHECK_THROWS_WITH_AS(kernel().check_call(of, call.call()), doctest::Contains("v_offset=4611686018427387904"),
                       BadInput);
  call.v_offset = 0;
  call.k.block = std::int64_t{1} << 38;
  call.blocks = std::int64_t{1} << 30;
  CHECK_THROWS_WITH_AS(kernel().check_call(of, call.call()), doctest::Contains("make k span more than 2^56"), BadInput);
}

TEST_CASE("a pool with fewer pages than the sequences need is refused when inputs are made") {
  const Problem of = problem("batch=4,context=1000,page=16");
  Call call = kernel().default_call(of);
  set_field(call, kernel().call_schema(), "kv_blocks", 100);
  CHECK_THROWS_WITH_AS(kernel().buffers(of, call, 1), doctest::Contains("the sequences need 252 pages"), BadInput);
}

}  // namespace moetune::decode_attention_call_test
