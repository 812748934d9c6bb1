// The problem of prefill_attention: its rules, its sequences, its cost, and what its inputs hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/error.h"
#include "kernels/prefill_attention/inputs.h"
#include "kernels/prefill_attention/problem.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/prefill_attention/fixture.h"
#include "tests/kernels/random_prefill_call.h"

namespace moetune::prefill_attention_test {
using namespace prefill_attention_tests;

namespace {

// Whether query `row` of a sequence sees a token, as the problem states it.
bool sees(const Problem& of, const PrefillSequence& sequence, std::int64_t row, std::int64_t token) {
  const std::int64_t own = sequence.tokens - sequence.new_tokens + row;
  if (of["causal"] == 0) return true;
  return token <= own && (of["window"] == 0 || token > own - of["window"]);
}

const std::vector<const char*> kMasked = {
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged",
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged,window=7",
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=20,lengths=ragged,window=1",
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged,window=1000",
    "batch=7,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged,causal=0",
    "batch=3,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=1,seqlen_kv=1",
};

}  // namespace

TEST_CASE("a prefill_attention problem that breaks a rule is refused with the rule") {
  const auto refused = [](const char* text, const char* rule) {
    CHECK_THROWS_WITH_AS(problem(text), doctest::Contains(rule), BadInput);
  };
  refused("q_heads=30,kv_heads=8", "q_heads=30 is not a multiple of kv_heads=8");
  refused("head_dim=72", "one of 64, 80, 96, 112, 128, 192, 256");
  refused("page=48", "one of 0, 16, 32, 64, 128, 256");
  refused("softcap=101", "softcap");
  refused("seqlen_q=8192", "seqlen_kv=4096 is less than seqlen_q=8192; it counts the new tokens, too");
  refused("causal=0,window=128", "window=128 needs causal=1");
  refused("causal=2", "causal");
  refused("kv_scale=head", "kv_scale=head needs kv_dtype=e4m3");
  refused("q_dtype=e4m3", "q_dtype=e4m3 needs kv_dtype=e4m3");
  refused("batch=4096,seqlen_kv=4194304,seqlen_q=1,kv_heads=1024,q_heads=1024,head_dim=256", "keys and values");
  refused("batch=6000,seqlen_kv=4096,seqlen_q=4096,kv_heads=1,q_heads=32", "queries and output would take");
  refused("batch=32769,q_heads=1024,kv_heads=1,seqlen_q=64,seqlen_kv=64",
          "make 33555456 blocks of 64 rows; at most 33554432 are supported, each in up to 32 splits");
  CHECK_NOTHROW(problem("batch=32768,q_heads=1024,kv_heads=1,head_dim=64,seqlen_q=32,seqlen_kv=64"));
  refused("batch=65535,q_heads=1,kv_heads=1,head_dim=64,seqlen_q=1,seqlen_kv=16384,page=16",
          "the page table would have more than 67108864 entries");
  CHECK(problem("").text() ==
        "batch=1,q_heads=32,kv_heads=8,head_dim=128,seqlen_q=4096,seqlen_kv=4096,causal=1,window=0,sinks=none,"
        "lengths=full,page=0,layout=nhd,dtype=bf16,lse=none,kv_dtype=same,kv_scale=tensor,q_dtype=same,softcap=0");
}

TEST_CASE("presets of prefill_attention are models with their heads") {
  std::set<std::string> names;
  for (const Preset& preset : kernel().presets()) {
    CHECK(names.insert(preset.name).second);
    const Problem parsed = kernel().parse("batch=2", &preset);
    CHECK_NOTHROW(kernel().check(parsed));
    const bool gpt_oss = preset.name.starts_with("gpt-oss");
    CHECK(parsed.is("sinks", "learned") == gpt_oss);
    CHECK(parsed["head_dim"] == (gpt_oss ? 64 : 128));
    CHECK(parsed["window"] == (preset.name.ends_with("-window") ? 128 : 0));
  }
  for (const char* model : {"qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b", "llama-3-70b", "gpt-oss-20b"})
    CHECK(names.contains(model));
}

TEST_CASE("ragged sequences hold the odd ones, stay in range, and differ from seed to seed in order alone") {
  const Problem of = problem("batch=40,seqlen_q=100,seqlen_kv=700,lengths=ragged");
  const std::vector<PrefillSequence> all = PrefillShape(of).sequences();
  const auto has = [&](std::int64_t new_tokens, std::int64_t tokens) {
    return std::any_of(all.begin(), all.end(), [&](const PrefillSequence& each) {
      return each.new_tokens == new_tokens && each.tokens == tokens;
    });
  };
  CHECK(has(100, 700));
  CHECK(has(1, 1));
  CHECK(has(3, 0));
  CHECK(has(5, 2));
  CHECK(std::any_of(all.begin(), all.end(),
                    [](const PrefillSequence& each) { return each.new_tokens == 0 && each.tokens > 0; }));
  for (const PrefillSequence& each : all) {
    CHECK(each.new_tokens <= 100);
    CHECK(each.tokens <= 700);
  }
  const auto counts = [&](std::uint64_t seed) {
    const auto buffers = buffers_by_name(of, kernel().default_call(of), seed);
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    const auto &q = buffers.at("q_offsets").fill.integers, &kv = buffers.at("kv_offsets").fill.integers;
    for (std::size_t i = 0; i + 1 < q.size(); ++i) pairs.emplace_back(q[i + 1] - q[i], kv[i + 1] - kv[i]);
    return pairs;
  };
  auto one = counts(1), two = counts(2);
  CHECK(one != two);
  std::sort(one.begin(), one.end());
  std::sort(two.begin(), two.end());
  CHECK(one == two);
  CHECK(kernel().cost(of).flops.bf16 > 0);
}

TEST_CASE("while measuring, a sequence in pages changes its place with its queries, its length and its pages") {
  const Problem of = problem("batch=12,seqlen_q=100,seqlen_kv=700,lengths=ragged,page=16");
  const auto buffers = buffers_by_name(of, kernel().default_call(of), 1);
  const auto sequences = [&](std::int64_t order) {
    const auto q = integers_in_order(buffers.at("q_offsets"), order);
    const auto lengths = integers_in_order(buffers.at("kv_lengths"), order);
    const auto table = integers_in_order(buffers.at("page_table"), order);
    std::vector<std::vector<std::int32_t>> all;
    const std::size_t row = table.size() / lengths.size();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      std::vector<std::int32_t>& one = all.emplace_back(table.begin() + static_cast<std::ptrdiff_t>(i * row),
                                                        table.begin() + static_cast<std::ptrdiff_t>((i + 1) * row));
      one.push_back(q[i + 1] - q[i]);
      one.push_back(lengths[i]);
    }
    return all;
  };
  for (std::int64_t order = 1; order < kSequenceOrders; ++order) {
    CHECK(sequences(order) != sequences(0));
    CHECK(std::ranges::is_permutation(sequences(order), sequences(0)));
  }
}

TEST_CASE("what a query sees, and the cost, are those of the mask token by token") {
  for (const char* text : kMasked) {
    CAPTURE(text);
    const Problem of = problem(text);
    const PrefillShape shape(of);
    double pairs = 0, tokens = 0, rows = 0;
    for (const PrefillSequence& sequence : shape.sequences()) {
      std::set<std::int64_t> any;
      for (std::int64_t row = 0; row < sequence.new_tokens; ++row) {
        const Range visible = shape.visible(sequence, row);
        for (std::int64_t token = 0; token < sequence.tokens; ++token) {
          const bool seen = sees(of, sequence, row, token);
          CHECK(seen == (token >= visible.begin && token < visible.begin + visible.count));
          pairs += seen;
          if (seen) any.insert(token);
        }
      }
      const Range visible = shape.visible(sequence);
      CHECK(static_cast<std::int64_t>(any.size()) == visible.count);
      if (!any.empty()) CHECK(*any.begin() == visible.begin);
      tokens += static_cast<double>(any.size());
      rows += static_cast<double>(sequence.new_tokens * shape.q_heads);
    }
    const Cost cost = kernel().cost(of);
    CHECK(cost.flops.bf16 == 4 * 64 * pairs * 2);
    CHECK(cost.written_bytes == rows * 64 * 2);
    CHECK(cost.read_bytes == rows * 64 * 2 + 2 * tokens * 64 * 2 + 8 * (static_cast<double>(shape.batch) + 1));
  }
}

TEST_CASE("a causal prompt costs half of all pairs; new tokens alone are warm, tokens from before are cold") {
  const Cost prompt = kernel().cost(problem("seqlen_q=1000,seqlen_kv=1000"));
  CHECK(prompt.flops.bf16 == 4.0 * 128 * 32 * 1000 * 1001 / 2);
  CHECK(prompt.flops.fp16 == 0);
  CHECK(prompt.inputs == Inputs::warm);
  const Cost chunk = kernel().cost(problem("seqlen_q=10,seqlen_kv=1000,dtype=fp16"));
  CHECK(chunk.flops.fp16 == 4.0 * 128 * 32 * (991 + 1000) * 5);
  CHECK(chunk.inputs == Inputs::cold);
}

TEST_CASE("everything that no query sees is NaN, and nothing that one sees") {
  for (const char* text :
       {"batch=7,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=50,lengths=ragged,window=7",
        "batch=7,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=90,lengths=ragged,page=16",
        "batch=7,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=90,lengths=ragged,page=16,window=20",
        "batch=5,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=90,lengths=ragged,causal=0"}) {
    RandomPrefills members(kernel(), problem(text), 90, 17);
    for (int i = 0; i < 12; ++i) {
      const FamilyMember member = members.next();
      CAPTURE(member.problem.text());
      const PrefillShape shape(member.problem);
      const PrefillCall call(member.call);
      const KvTensors kv = call.kv(shape);
      const HostTensors inputs = host_inputs(member.problem, member.call, 4);
      const std::vector<double>&k = inputs.at("k"), &v = inputs.at(call.v_offset > 0 ? "k" : "v");
      double used = 0;
      for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
        const auto number = [&](const char* name, std::int64_t at) {
          return static_cast<std::int64_t>(inputs.at(name)[static_cast<std::size_t>(at)]);
        };
        PrefillSequence of{number("q_offsets", sequence + 1) - number("q_offsets", sequence), 0};
        of.tokens = shape.paged() ? number("kv_lengths", sequence)
                                  : number("kv_offsets", sequence + 1) - number("kv_offsets", sequence);
        const Range visible = shape.visible(of);
        for (std::int64_t token = visible.begin; token < visible.begin + visible.count; ++token) {
          const std::int64_t block =
              shape.paged() ? number("page_table", sequence * call.page_table_stride + token / shape.page) : 0;
          const std::int64_t within = shape.paged() ? token % shape.page : number("kv_offsets", sequence) + token;
          REQUIRE(block < call.blocks);
          for (std::int64_t head = 0; head < shape.kv_heads; ++head, used += 128) {
            const auto at = [&](const KvStrides& by) {
              return static_cast<std::size_t>(block * by.block + head * by.head + within * by.token);
            };
            for (const std::size_t d : {std::size_t{0}, std::size_t{63}}) {
              REQUIRE_FALSE(std::isnan(k[at(kv.k) + d]));
              REQUIRE_FALSE(std::isnan(v[static_cast<std::size_t>(kv.v_offset) + at(kv.v) + d]));
            }
          }
        }
      }
      double numbers = 0;
      for (const char* name : {"k", "v"}) {
        if (const auto found = inputs.find(name); found != inputs.end())
          for (const double value : found->second) numbers += !std::isnan(value);
      }
      CHECK(numbers == used);  // 64 elements of a key and of a value for each token seen, and no others
      double queries = 0;
      for (const double value : inputs.at("q")) queries += !std::isnan(value);
      CHECK(queries == inputs.at("q_offsets").back() * static_cast<double>(shape.q_heads) * 64);
    }
  }
}

TEST_CASE("inputs that do not fit the call's room are refused, and buffers come in the interface's types") {
  const Problem of = problem("batch=3,seqlen_q=100,seqlen_kv=300,lse=natural,sinks=learned");
  const auto refused = [&](const char* field, double value, const char* rule) {
    Call call = kernel().default_call(of);
    set_field(call, kernel().call_schema(), field, value);
    CHECK_THROWS_WITH_AS(kernel().buffers(of, call, 1), doctest::Contains(rule), BadInput);
  };
  refused("q_tokens", 299, "the sequences need 300 tokens and q_tokens=299");
  refused("capacity", 899, "the sequences need 900 tokens and capacity=899");
  const Problem paged = problem("batch=3,seqlen_q=100,seqlen_kv=300,page=64");
  Call call = kernel().default_call(paged);
  set_field(call, kernel().call_schema(), "kv_blocks", 14);
  CHECK_THROWS_WITH_AS(kernel().buffers(paged, call, 1), doctest::Contains("need 15 pages and kv_blocks=14"), BadInput);
  const auto buffers = buffers_by_name(of, kernel().default_call(of), 1);
  CHECK(buffers.size() == 8);
  CHECK(buffers.at("lse").elements == 300 * 32);
  CHECK(buffers.at("o").role == Role::output);
  CHECK(buffers.at("k").rotates);
  CHECK_FALSE(buffers.at("q").rotates);
}

TEST_CASE("the answer: one token sees itself alone, and rows that see nothing are 0 with the sink's logarithm") {
  const Problem of = problem(
      "batch=5,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=9,seqlen_kv=12,lengths=ragged,lse=natural,"
      "sinks=learned");
  const Call call = kernel().default_call(of);
  HostTensors inputs = host_inputs(of, call, 3);
  const auto check = [&](bool sinks) {
    const HostTensors right = answer_on_cpu(of, call, inputs);
    const auto integer = [&](const char* name, std::size_t at) {
      return static_cast<std::size_t>(inputs.at(name)[at]);
    };
    int empty = 0, single = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t begin = integer("q_offsets", i), rows = integer("q_offsets", i + 1) - begin;
      const std::size_t tokens = integer("kv_offsets", i + 1) - integer("kv_offsets", i);
      if (rows == 0) continue;
      for (std::size_t head = 0; head < 2; ++head) {
        const double o = right.at("o")[(begin * 2 + head) * 64], lse = right.at("lse")[begin * 2 + head];
        const double sink = inputs.at("sinks")[head];
        if (tokens < rows) {  // the first row sees nothing
          ++empty;
          CHECK(o == 0);
          CHECK(lse == sink);
        } else if (tokens == 1) {
          ++single;
          const double v = inputs.at("v")[integer("kv_offsets", i) * 64];
          CHECK(o == doctest::Approx(sinks ? v * (1 - std::exp(sink - lse)) : v));
        }
      }
    }
    CHECK(empty == 4);
    CHECK(single == 2);
  };
  check(true);
  inputs["sinks"] = {-INFINITY, -INFINITY};
  check(false);
}

}  // namespace moetune::prefill_attention_test
