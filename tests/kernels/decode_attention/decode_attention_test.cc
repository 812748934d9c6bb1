#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/decode_attention/inputs.h"
#include "kernels/decode_attention/problem.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/decode_attention/fixture.h"

namespace moetune::decode_attention_test {
using namespace decode_attention_tests;

namespace {

std::map<std::string, Buffer> buffers_by_name(const Problem& of, std::uint64_t seed = 1) {
  std::map<std::string, Buffer> named;
  for (Buffer& buffer : kernel().buffers(of, seed)) {
    const std::string name = buffer.name;
    named.emplace(name, std::move(buffer));
  }
  return named;
}

// Whether some query of the sequence sees the token.
bool is_seen(const Problem& of, std::int64_t length, std::int64_t token) {
  for (std::int64_t position = length - of["q_len"]; position < length; ++position) {
    if (token <= position && (of["window"] == 0 || token > position - of["window"])) return true;
  }
  return false;
}

// Which elements of k or v a right kernel uses, found by walking every token of every sequence.
std::vector<bool> used_elements(const Problem& of, const std::map<std::string, Buffer>& buffers) {
  const std::int64_t heads = of["kv_heads"], dim = of["head_dim"], page = of["page"], context = of["context"];
  const std::int64_t tokens = page > 0 ? page : context;
  const std::vector<std::int32_t>& lengths = buffers.at("lengths").fill.integers;
  std::vector<bool> used(static_cast<std::size_t>(buffers.at("k").elements), false);
  for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    for (std::int64_t token = 0; token < lengths[sequence]; ++token) {
      if (!is_seen(of, lengths[sequence], token)) continue;
      std::int64_t block = static_cast<std::int64_t>(sequence);
      if (page > 0) {
        const std::vector<std::int32_t>& table = buffers.at("page_table").fill.integers;
        block = table[sequence * (table.size() / lengths.size()) + static_cast<std::size_t>(token / page)];
      }
      const std::int64_t within = token % tokens;
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::int64_t row = of.is("layout", "hnd") ? (block * heads + head) * tokens + within
                                                        : (block * tokens + within) * heads + head;
        for (std::int64_t i = 0; i < dim; ++i) used.at(static_cast<std::size_t>(row * dim + i)) = true;
      }
    }
  }
  return used;
}

HostTensors host_inputs(const Problem& of, std::uint64_t seed) {
  HostTensors tensors;
  const std::vector<Buffer> buffers = kernel().buffers(of, seed);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == Role::input) {
      tensors[buffers[i].name] = host_values(buffers[i], seed, fill_stream(i, 0));
    }
  }
  return tensors;
}

}  // namespace

TEST_CASE("a decode_attention problem that breaks a rule is refused with the rule") {
  CHECK_THROWS_WITH_AS(problem("q_heads=30,kv_heads=8"),
                       doctest::Contains("q_heads=30 is not a multiple of kv_heads=8"), BadInput);
  CHECK_THROWS_WITH_AS(problem("head_dim=72"), doctest::Contains("one of 64, 80, 96, 112, 128, 192, 256"), BadInput);
  CHECK_THROWS_WITH_AS(problem("page=48"), doctest::Contains("one of 0, 1, 16, 32, 64, 128, 256"), BadInput);
  CHECK_THROWS_WITH_AS(problem("batch=65535,context=4194304,kv_heads=1024,q_heads=1024,head_dim=256"),
                       doctest::Contains("GiB"), BadInput);
  CHECK_THROWS_WITH_AS(problem("batch=65,context=1048576,kv_heads=1,q_heads=1,head_dim=64,page=1"),
                       doctest::Contains("the page table would have 68157570 entries; at most 67108864"), BadInput);
  CHECK_THROWS_AS(problem("context=0"), BadInput);
  CHECK_THROWS_AS(problem("q_len=9"), BadInput);
  CHECK_THROWS_AS(problem("softcap=101"), BadInput);
  CHECK_THROWS_WITH_AS(problem("kv_scale=head"), doctest::Contains("needs kv_dtype=e4m3"), BadInput);
  CHECK(problem("").text() ==
        "batch=64,q_heads=64,kv_heads=8,head_dim=128,context=8192,dtype=bf16,page=0,lengths=full,layout=hnd,"
        "window=0,sinks=none,q_len=1,lse=none,kv_dtype=same,kv_scale=tensor,softcap=0");
}

TEST_CASE("every preset is a legal problem with its model's heads") {
  std::set<std::string> names;
  for (const Preset& preset : kernel().presets()) {
    CHECK(names.insert(preset.name).second);
    const Problem parsed = kernel().parse("context=1024", &preset);
    CHECK_NOTHROW(kernel().check(parsed));
    CHECK(parsed["context"] == 1024);
  }
  for (const char* model : {"qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b", "llama-3-70b", "gpt-oss-20b",
                            "gpt-oss-20b-window", "gpt-oss-120b", "gpt-oss-120b-window"}) {
    CHECK(names.count(model) == 1);
  }
}

TEST_CASE("gpt-oss has sinks everywhere and a window of 128 in every other layer") {
  for (const Preset& preset : kernel().presets()) {
    const Problem parsed = kernel().parse("", &preset);
    const bool gpt_oss = preset.name.find("gpt-oss") == 0;
    CHECK(parsed.is("sinks", "learned") == gpt_oss);
    CHECK(parsed["window"] == (gpt_oss && preset.name.find("-window") != std::string::npos ? 128 : 0));
  }
}

TEST_CASE(
    "ragged lengths lie in [1, context] but for one 0, include both ends, and only their order follows the "
    "seed") {
  const Problem ragged = problem("batch=40,context=777,lengths=ragged");
  const auto lengths = [&](std::uint64_t seed) { return buffers_by_name(ragged, seed).at("lengths").fill.integers; };
  std::vector<std::int32_t> first = lengths(1), second = lengths(2);
  CHECK(first != second);
  CHECK(first == lengths(1));
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == second);
  CHECK(first[0] == 0);
  CHECK(first[1] == 1);
  CHECK(first.back() == 777);
  CHECK(std::set<std::int32_t>(first.begin(), first.end()).size() > 20);
  CHECK(buffers_by_name(problem("batch=1,context=777,lengths=ragged")).at("lengths").fill.integers ==
        std::vector<std::int32_t>{777});
}

TEST_CASE("ragged sequences in pages may change places while measuring, others stay") {
  const std::map<std::string, Buffer> paged = buffers_by_name(problem("batch=40,context=777,page=16,lengths=ragged"));
  CHECK(paged.at("lengths").sequences == 40);
  CHECK(paged.at("page_table").sequences == 40);
  CHECK(paged.at("q").sequences == 0);
  CHECK(buffers_by_name(problem("batch=40,context=777,page=16")).at("lengths").sequences == 0);
  CHECK(buffers_by_name(problem("batch=40,context=777,lengths=ragged")).at("lengths").sequences == 0);
}

TEST_CASE("poison covers exactly what a right kernel never uses") {
  for (const char* layout : {"hnd", "nhd"}) {
    for (const char* page : {"0", "1", "16", "64,window=20", "128", "0,window=33,q_len=3", "16,window=40",
                             "1,window=7,q_len=4", "64,q_len=2"}) {
      const Problem of =
          problem(std::string("batch=5,q_heads=6,kv_heads=3,head_dim=64,context=150,lengths=ragged,page=") + page +
                  ",layout=" + layout);
      const std::map<std::string, Buffer> buffers = buffers_by_name(of, 9);
      const std::vector<bool> used = used_elements(of, buffers);
      for (const char* name : {"k", "v"}) {
        std::vector<bool> poisoned(used.size(), false);
        std::int64_t end = -1;
        for (const Range& range : buffers.at(name).fill.poison) {
          REQUIRE(range.begin > end);  // ascending, and neighbours are joined
          REQUIRE(range.count > 0);
          end = range.begin + range.count;
          REQUIRE(end <= buffers.at(name).elements);
          std::fill(poisoned.begin() + range.begin, poisoned.begin() + end, true);
        }
        std::vector<bool> unused = used;
        unused.flip();
        CHECK_MESSAGE(poisoned == unused, layout, " page ", page, " ", name);
      }
    }
  }
}

TEST_CASE("page tables give every sequence pages of its own, shuffled, with garbage behind them") {
  const Problem of = problem("batch=9,context=700,page=16,lengths=ragged,q_heads=2,kv_heads=1,head_dim=64");
  const std::map<std::string, Buffer> buffers = buffers_by_name(of, 5);
  const std::vector<std::int32_t>&table = buffers.at("page_table").fill.integers,
        &lengths = buffers.at("lengths").fill.integers;
  const std::size_t width = table.size() / lengths.size();
  const std::int64_t pages = buffers.at("k").elements / (16 * 64);
  std::set<std::int32_t> seen;
  bool in_order = true;
  for (std::size_t sequence = 0; sequence < lengths.size(); ++sequence) {
    const auto own = static_cast<std::size_t>((lengths[sequence] + 15) / 16);
    REQUIRE(own < width);
    for (std::size_t entry = 0; entry < width; ++entry) {
      const std::int32_t page = table[sequence * width + entry];
      if (entry >= own) {
        CHECK(page == kGarbagePage);
        continue;
      }
      CHECK(page >= 0);
      CHECK(page < pages);
      in_order &= seen.empty() || page > *seen.rbegin();
      CHECK(seen.insert(page).second);
    }
  }
  CHECK_FALSE(in_order);
  CHECK(static_cast<std::int64_t>(seen.size()) < pages);
}

TEST_CASE("pages that lie before the window are no sequence's, and their entries are garbage") {
  const Problem of = problem("batch=2,context=700,page=16,window=100,q_len=2,q_heads=2,kv_heads=1,head_dim=64");
  const std::vector<std::int32_t> table = buffers_by_name(of, 5).at("page_table").fill.integers;
  const std::size_t width = table.size() / 2;
  for (std::size_t sequence = 0; sequence < 2; ++sequence) {
    for (std::size_t entry = 0; entry < width; ++entry) {
      // The first query is token 698 and sees from token 599 on, which lies in page 37; page 43 is the last.
      CHECK((table[sequence * width + entry] != kGarbagePage) == (entry >= 37 && entry <= 43));
    }
  }
}

TEST_CASE("e4m3 keys and values come with positive scales that tell heads, and keys from values") {
  for (const char* scale : {"tensor", "head"}) {
    const std::map<std::string, Buffer> buffers =
        buffers_by_name(problem(std::string("batch=2,context=100,kv_dtype=e4m3,kv_scale=") + scale));
    CHECK(buffers.at("k").dtype == DType::e4m3);
    CHECK(buffers.at("v").dtype == DType::e4m3);
    CHECK(buffers.at("q").dtype == DType::bf16);
    CHECK(buffers.at("o").dtype == DType::bf16);
    std::map<std::string, std::vector<double>> scales;
    for (const char* name : {"k_scale", "v_scale"}) {
      CHECK(buffers.at(name).dtype == DType::f32);
      scales[name] = host_values(buffers.at(name), 1, 0);
      for (double value : scales[name]) CHECK(value > 0);
    }
    const std::set<double> distinct(scales["k_scale"].begin(), scales["k_scale"].end());
    CHECK(scales["k_scale"].size() == (scale == std::string("head") ? 8 : 1));
    CHECK(distinct.size() == (scale == std::string("head") ? 3 : 1));
    CHECK(scales["k_scale"] != scales["v_scale"]);
  }
}

TEST_CASE("keys and values rotate, queries and outputs have one element a head dimension") {
  const std::vector<Buffer> buffers = kernel().buffers(problem("batch=2,context=100"), 1);
  REQUIRE(buffers.size() == 5);
  CHECK(buffers.back().name == "o");
  CHECK(buffers.back().role == Role::output);
  for (const Buffer& buffer : buffers) {
    CHECK(buffer.rotates == (buffer.name == "k" || buffer.name == "v"));
    if (buffer.name == "q" || buffer.name == "o") CHECK(buffer.elements == 2 * 64 * 128);
    if (buffer.name == "k") CHECK(buffer.elements == 2 * 8 * 100 * 128);
  }
}

TEST_CASE("the least bytes are the tokens there are, read once") {
  const Cost full = kernel().cost(problem(""));
  CHECK(full.read_bytes == 2.0 * 64 * 8 * 8192 * 128 * 2 + 64 * 64 * 128 * 2 + 64 * 4);
  CHECK(full.written_bytes == 64.0 * 64 * 128 * 2);
  CHECK(full.inputs == Inputs::cold);
  CHECK(full.flops.bf16 == 4.0 * 64 * 64 * 8192 * 128);
  CHECK(full.flops.fp16 == 0);
  CHECK(kernel().cost(problem("dtype=fp16")).flops.fp16 == full.flops.bf16);
  const Cost window = kernel().cost(problem("window=128,q_len=2,sinks=learned,lse=natural"));
  CHECK(window.written_bytes == 2.0 * 64 * 64 * 128 * 2 + 2.0 * 64 * 64 * 4);
  CHECK(window.bytes() ==
        2.0 * 64 * 8 * 129 * 128 * 2 + 2.0 * 2 * 64 * 64 * 128 * 2 + 64 * 4 + 64 * 4 + 2.0 * 64 * 64 * 4);
  const Cost narrow = kernel().cost(problem("kv_dtype=e4m3,kv_scale=head"));
  CHECK(narrow.bytes() == 2.0 * 64 * 8 * 8192 * 128 + 2.0 * 64 * 64 * 128 * 2 + 64 * 4 + 2 * 8 * 4);
  CHECK(narrow.flops.fp16 == full.flops.bf16);  // widened from e4m3
  CHECK(narrow.flops.bf16 + narrow.flops.e4m3 == 0);
  CHECK(window.flops.bf16 == 4.0 * 64 * 64 * 2 * 128 * 128);
  CHECK(kernel().cost(problem("q_len=2")).flops.bf16 == 4.0 * 64 * 64 * (8191 + 8192) * 128);
  const Problem ragged = problem("batch=8,lengths=ragged,page=16");
  double tokens = 0, pages = 0;
  const std::map<std::string, Buffer> buffers = buffers_by_name(ragged, 3);
  for (std::int32_t length : buffers.at("lengths").fill.integers) {
    tokens += length;
    pages += (length + 15) / 16;
  }
  CHECK(kernel().cost(ragged).bytes() == tokens * 8 * 128 * 2 * 2 + 2.0 * 8 * 64 * 128 * 2 + 8 * 4 + pages * 4);
}

TEST_CASE("the CPU reference is softmax attention over the tokens that each query sees") {
  for (const char* variant :
       {"page=0", "page=16,layout=nhd", "page=1,q_len=3", "layout=nhd,window=9",
        "page=16,window=9,q_len=2,sinks=learned,lse=natural", "sinks=learned", "lse=natural,q_len=4", "page=16",
        "kv_dtype=e4m3", "kv_dtype=e4m3,kv_scale=head,page=16,lse=natural"}) {
    CAPTURE(variant);
    const Problem of =
        problem(std::string("batch=4,q_heads=4,kv_heads=2,head_dim=64,context=37,lengths=ragged,") + variant);
    const HostTensors inputs = host_inputs(of, 4);
    const HostTensors outputs = answer_on_cpu(of, inputs);
    const bool narrow = of.is("kv_dtype", "e4m3");
    const bool sinks = of.is("sinks", "learned"), lse = of.is("lse", "natural");
    CHECK(outputs.size() == (lse ? 2 : 1));
    const std::vector<double>& o = outputs.at("o");
    const std::vector<bool> used = used_elements(of, buffers_by_name(of, 4));
    const std::vector<double>&q = inputs.at("q"), &k = inputs.at("k"), &v = inputs.at("v");
    const std::int64_t page = of["page"], tokens = page > 0 ? page : 37, queries = of["q_len"];
    // The naive formula: weights exp(q.k / 8), no maximum subtracted, addresses spelled out.
    for (std::int64_t row = 0; row < 4 * queries * 4; ++row) {
      const std::int64_t head = row % 4, query = row / 4 % queries, sequence = row / 4 / queries;
      const auto length = static_cast<std::int64_t>(inputs.at("lengths")[sequence]);
      const std::int64_t position = length - queries + query;
      double denominator = sinks ? std::exp(inputs.at("sinks")[head]) : 0;
      std::vector<double> sum(64, 0.0);
      for (std::int64_t token = 0; token <= position; ++token) {
        if (of["window"] > 0 && token <= position - of["window"]) continue;
        std::int64_t block = sequence;
        if (page > 0) {
          const std::vector<double>& table = inputs.at("page_table");
          block = static_cast<std::int64_t>(table[sequence * (table.size() / 4) + token / page]);
        }
        const std::int64_t kv = head / 2, within = token % tokens;
        const std::int64_t from = of.is("layout", "hnd") ? ((block * 2 + kv) * tokens + within) * 64
                                                         : ((block * tokens + within) * 2 + kv) * 64;
        REQUIRE(used[from]);
        double dot = 0;
        for (int i = 0; i < 64; ++i) dot += q[row * 64 + i] * k[from + i];
        const std::int64_t scale = of.is("kv_scale", "head") ? kv : 0;
        if (narrow) dot *= inputs.at("k_scale")[scale];
        const double weight = std::exp(dot / 8);
        denominator += weight;
        for (int i = 0; i < 64; ++i) sum[i] += weight * v[from + i] * (narrow ? inputs.at("v_scale")[scale] : 1);
      }
      for (int i = 0; i < 64; ++i) {
        const double expected = denominator > 0 ? sum[i] / denominator : 0;
        REQUIRE(o[row * 64 + i] == doctest::Approx(expected).epsilon(1e-12));
      }
      if (!lse) continue;
      const double logarithm = outputs.at("lse").at(row);
      if (denominator > 0) {
        CHECK(logarithm == doctest::Approx(std::log(denominator)).epsilon(1e-12));
      } else {
        CHECK(logarithm == -std::numeric_limits<double>::infinity());
      }
    }
  }
}

}  // namespace moetune::decode_attention_test
