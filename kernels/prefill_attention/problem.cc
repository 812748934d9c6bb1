#include "kernels/prefill_attention/problem.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/attention/call.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostTensorBytes = std::int64_t{256} << 30;  // of K and V, and of Q and O
constexpr std::int64_t kMostPageEntries = std::int64_t{64} << 20;   // inputs travel to the worker
constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;          // numbered in 32 bits, past the last too
constexpr std::int64_t kLeastRows = 64;                             // of a block

[[noreturn]] void refuse_prefill(const std::string& rule) { throw BadInput("prefill_attention: " + rule); }

Preset prefill_preset(std::string name, std::string doc, std::string q_heads, std::string kv_heads,
                      std::vector<std::pair<std::string, std::string>> others = {}) {
  Preset made{std::move(name), std::move(doc), std::move(others)};
  made.dims.insert(made.dims.begin(), {{"q_heads", std::move(q_heads)}, {"kv_heads", std::move(kv_heads)}});
  return made;
}

void require_fits(const char* what, std::int64_t bytes) {
  if (bytes <= kMostTensorBytes) return;
  refuse_prefill(std::string(what) + " would take " + std::to_string(ceil_div(bytes, std::int64_t{1} << 30)) +
                 " GiB; at most " + std::to_string(kMostTensorBytes >> 30) + " GiB are supported");
}

// Queries times the tokens that each sees.
double pairs_of(const PrefillShape& shape, const PrefillSequence& sequence) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  if (!shape.causal) return real(sequence.new_tokens) * real(sequence.tokens);
  // Queries see `first`, first + 1, ... `tokens` tokens, except for the window.
  const std::int64_t first = std::max<std::int64_t>(1, sequence.tokens - sequence.new_tokens + 1);
  const std::int64_t queries = std::max<std::int64_t>(0, sequence.tokens - first + 1);
  if (sequence.new_tokens == 0) return 0;
  const std::int64_t most = shape.window == 0 ? sequence.tokens : std::min(shape.window, sequence.tokens);
  const std::int64_t growing = std::clamp<std::int64_t>(most - first + 1, 0, queries);
  return real(growing) * (real(first) + real(first + growing - 1)) / 2 + real(queries - growing) * real(most);
}

}  // namespace

PrefillShape::PrefillShape(const Problem& problem)
    : batch(problem["batch"]),
      q_heads(problem["q_heads"]),
      kv_heads(problem["kv_heads"]),
      head_dim(problem["head_dim"]),
      seqlen_q(problem["seqlen_q"]),
      seqlen_kv(problem["seqlen_kv"]),
      page(problem["page"]),
      window(problem["window"]),
      softcap(problem["softcap"]),
      dtype(problem.is("dtype", "fp16") ? DType::f16 : DType::bf16),
      causal(problem["causal"] == 1),
      ragged(problem.is("lengths", "ragged")),
      heads_first(problem.is("layout", "hnd")),
      sinks(problem.is("sinks", "learned")),
      lse(problem.is("lse", "natural")),
      narrow(problem.is("kv_dtype", "e4m3")),
      head_scales(problem.is("kv_scale", "head")),
      narrow_queries(problem.is("q_dtype", "e4m3")) {}

std::vector<PrefillSequence> PrefillShape::sequences() const {
  std::vector<PrefillSequence> all(static_cast<std::size_t>(batch), {seqlen_q, seqlen_kv});
  if (!ragged) return all;
  std::mt19937_64 random(0x6d6f6574756e65);  // any constant: the lengths belong to the problem
  const auto draw = [&](std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (PrefillSequence& sequence : all) {
    sequence.tokens = draw(seqlen_kv);
    sequence.new_tokens = draw(std::min(seqlen_q, sequence.tokens));
  }
  all.front() = {seqlen_q, seqlen_kv};
  if (batch > 1) all.back() = {1, 1};
  if (batch > 2) all[all.size() / 2] = {std::min<std::int64_t>(3, seqlen_q), 0};
  if (batch > 3) all[1].new_tokens = 0;
  if (batch > 4) all[all.size() - 2] = {std::min<std::int64_t>(5, seqlen_q), std::min<std::int64_t>(2, seqlen_kv)};
  return all;
}

Range PrefillShape::visible(const PrefillSequence& sequence, std::int64_t row) const {
  const std::int64_t end =
      causal ? std::max<std::int64_t>(0, sequence.tokens - sequence.new_tokens + row + 1) : sequence.tokens;
  const std::int64_t begin = window == 0 ? 0 : std::max<std::int64_t>(0, end - window);
  return {begin, end - begin};
}

Range PrefillShape::visible(const PrefillSequence& sequence) const {
  if (sequence.new_tokens == 0) return {};
  const std::int64_t begin = visible(sequence, 0).begin;
  return {begin, sequence.tokens - begin};
}

PrefillTotals::PrefillTotals(const PrefillShape& shape) {
  for (const PrefillSequence& sequence : shape.sequences()) {
    new_tokens += sequence.new_tokens;
    tokens += sequence.tokens;
    const Range seen = shape.visible(sequence);
    visible += static_cast<double>(seen.count);
    if (shape.paged() && seen.count > 0)
      pages += ceil_div(seen.begin + seen.count, shape.page) - seen.begin / shape.page;
    pairs += pairs_of(shape, sequence);
  }
}

PrefillShape PrefillShape::at(const Extents& extents) const {
  PrefillShape other = *this;
  other.batch = extents[0];
  other.kv_heads = extents[1];
  other.q_heads = group() * other.kv_heads;
  other.seqlen_q = extents[2];
  other.seqlen_kv = extents[3];
  return other;
}

Assignment PrefillShape::specialization() const {
  const auto named = [](std::string_view name) { return Value::named(name, 0); };
  Assignment compiled = {{"group", Value::integer(group())},
                         {"head_dim", Value::integer(head_dim)},
                         {"causal", Value::integer(causal ? 1 : 0)},
                         {"window", Value::integer(window)},
                         {"sinks", named(sinks ? "learned" : "none")},
                         {"page", Value::integer(page)},
                         {"dtype", named(dtype == DType::f16 ? "fp16" : "bf16")},
                         {"lse", named(lse ? "natural" : "none")}};
  // Families of other keys and values are named as before there were these.
  if (narrow) {
    compiled.set("kv_dtype", named("e4m3"));
    compiled.set("kv_scale", named(head_scales ? "head" : "tensor"));
  }
  if (narrow_queries) compiled.set("q_dtype", named("e4m3"));
  if (softcap > 0) compiled.set("softcap", Value::integer(softcap));
  return compiled;
}

const ProblemSchema& prefill_attention_schema() {
  static const ProblemSchema schema = {
      integer_dimension("batch", "sequences", 1, 1, kMostSequences),
      integer_dimension("q_heads", "query heads", 32, 1, kMostKvHeads),
      integer_dimension("kv_heads", "key and value heads; q_heads is a multiple of it", 8, 1, kMostKvHeads),
      integer_dimension("head_dim", kHeadDimDoc, 128, 64, 256),
      integer_dimension("seqlen_q", "new tokens of the sequence that has most", 4096, 1, kMostNewTokens),
      integer_dimension("seqlen_kv", "tokens of the longest sequence, new ones included", 4096, 1, kMostKvTokens),
      integer_dimension("causal", "1: a token sees itself and what lies before it; 0: all of its sequence", 1, 0, 1),
      integer_dimension("window", "causal: tokens a token sees, itself included; 0 for all", 0, 0, kMostKvTokens),
      named_dimension("sinks", "no sinks, or a learned logit of every query head in the softmax denominator",
                      {"none", "learned"}),
      named_dimension("lengths", "every sequence as long as the longest, or uniform below it with odd ones among them",
                      {"full", "ragged"}),
      integer_dimension("page", "tokens a KV page: 16, 32, 64, 128 or 256; 0 for contiguous KV", 0, 0, 256),
      named_dimension("layout", "KV with tokens before heads (in a page, or in all), or heads before tokens",
                      {"nhd", "hnd"}),
      named_dimension("dtype", "type of queries and output, and of keys and values where kv_dtype is same",
                      {"bf16", "fp16"}),
      named_dimension("lse", "whether the natural logarithm of the softmax denominator is an output",
                      {"none", "natural"}),
      named_dimension("kv_dtype", "type of keys and values: that of queries, or e4m3 with scales", {"same", "e4m3"}),
      named_dimension("kv_scale", "e4m3: one scale for all keys and one for all values, or for every KV head",
                      {"tensor", "head"}),
      named_dimension("q_dtype", "type of queries: that of the output, or e4m3 with scales as keys have them",
                      {"same", "e4m3"}),
      integer_dimension("softcap", kSoftcapDoc, 0, 0, kMostSoftcap),
  };
  return schema;
}

const std::vector<Preset>& prefill_attention_presets() {
  static const std::vector<Preset> presets = {
      prefill_preset("qwen3-30b-a3b", "Qwen3-30B-A3B", "32", "4"),
      prefill_preset("qwen3-235b-a22b", "Qwen3-235B-A22B", "64", "4"),
      prefill_preset("mixtral-8x7b", "Mixtral 8x7B", "32", "8"),
      prefill_preset("llama-3-70b", "Llama 3 70B", "64", "8"),
      prefill_preset("gpt-oss-20b", "gpt-oss-20b, its full-attention layers", "64", "8",
                     {{"head_dim", "64"}, {"sinks", "learned"}}),
      prefill_preset("gpt-oss-20b-window", "gpt-oss-20b, its sliding-window layers", "64", "8",
                     {{"head_dim", "64"}, {"window", "128"}, {"sinks", "learned"}}),
      prefill_preset("gpt-oss-120b", "gpt-oss-120b, its full-attention layers", "64", "8",
                     {{"head_dim", "64"}, {"sinks", "learned"}}),
      prefill_preset("gpt-oss-120b-window", "gpt-oss-120b, its sliding-window layers", "64", "8",
                     {{"head_dim", "64"}, {"window", "128"}, {"sinks", "learned"}}),
  };
  return presets;
}

void check_prefill_extents(const Extents& extents, std::int64_t group) {
  static constexpr const char* kNames[] = {"batch", "kv_heads", "seqlen_q", "seqlen_kv"};
  static constexpr std::int64_t kMost[] = {kMostSequences, kMostKvHeads, kMostNewTokens, kMostKvTokens};
  if (extents.size() != 4) refuse_prefill("the extents are batch, kv_heads, seqlen_q and seqlen_kv");
  for (std::size_t i = 0; i < 4; ++i) {
    if (extents[i] >= 1 && extents[i] <= kMost[i]) continue;
    refuse_prefill(std::string(kNames[i]) + "=" + std::to_string(extents[i]) + " is out of range (from 1 to " +
                   std::to_string(kMost[i]) + ")");
  }
  if (extents[3] < extents[2]) {
    refuse_prefill("seqlen_kv=" + std::to_string(extents[3]) + " is less than seqlen_q=" + std::to_string(extents[2]) +
                   "; it counts the new tokens, too");
  }
  const std::int64_t blocks = extents[0] * extents[1] * group * ceil_div(extents[2], kLeastRows);
  if (blocks * kMostPrefillSplits > kMostTiles)
    refuse_prefill("batch, heads and seqlen_q make " + std::to_string(blocks) + " blocks of " +
                   std::to_string(kLeastRows) + " rows; at most " + std::to_string(kMostTiles / kMostPrefillSplits) +
                   " are supported, each in up to " + std::to_string(kMostPrefillSplits) + " splits");
}

void check_prefill_attention(const Problem& problem) {
  require_one_of(problem, "head_dim", {std::begin(kHeadDims), std::end(kHeadDims)});
  require_one_of(problem, "page", {0, 16, 32, 64, 128, 256});
  if (problem["q_heads"] % problem["kv_heads"] != 0) {
    refuse_prefill("q_heads=" + std::to_string(problem["q_heads"]) +
                   " is not a multiple of kv_heads=" + std::to_string(problem["kv_heads"]));
  }
  if (problem["window"] > 0 && problem["causal"] == 0)
    refuse_prefill("window=" + std::to_string(problem["window"]) + " needs causal=1");
  if (problem.is("kv_scale", "head") && !problem.is("kv_dtype", "e4m3"))
    refuse_prefill("kv_scale=head needs kv_dtype=e4m3: other keys and values have no scales");
  if (problem.is("q_dtype", "e4m3") && !problem.is("kv_dtype", "e4m3"))
    refuse_prefill("q_dtype=e4m3 needs kv_dtype=e4m3: wider keys and values go with queries of their type");
  check_prefill_extents({problem["batch"], problem["kv_heads"], problem["seqlen_q"], problem["seqlen_kv"]},
                        problem["q_heads"] / problem["kv_heads"]);
  // 2^16 * 2^22 * 2^10 * 2^8 elements of 2 bytes, twice: 2^58 at most, so these cannot overflow.
  const std::int64_t row_bytes = problem["batch"] * problem["head_dim"] * 4;
  require_fits("keys and values", row_bytes * problem["seqlen_kv"] * problem["kv_heads"]);
  require_fits("queries and output", row_bytes * problem["seqlen_q"] * problem["q_heads"]);
  if (problem["page"] > 0 && problem["batch"] * (problem["seqlen_kv"] / problem["page"] + 3) > kMostPageEntries)
    refuse_prefill("the page table would have more than " + std::to_string(kMostPageEntries) + " entries");
}

Problem prefill_attention_problem_of(const Assignment& specialization, const Extents& extents) {
  const Value* const group = specialization.find("group");
  if (group == nullptr || group->is_named() || group->number < 1 || group->number > kMostKvHeads)
    refuse_prefill("a specialization needs group=1 to 1024, the query heads that share a KV head");
  check_prefill_extents(extents, group->number);
  std::string text = "batch=" + std::to_string(extents[0]) + ",q_heads=" + std::to_string(group->number * extents[1]) +
                     ",kv_heads=" + std::to_string(extents[1]) + ",seqlen_q=" + std::to_string(extents[2]) +
                     ",seqlen_kv=" + std::to_string(extents[3]);
  for (const auto& [name, value] : specialization) {
    if (name != "group") text += "," + name + "=" + value.text();
  }
  Problem problem = parse_problem("prefill_attention", prefill_attention_schema(), nullptr, text);
  check_prefill_attention(problem);
  return problem;
}

Cost prefill_attention_cost(const PrefillShape& shape) {
  const PrefillTotals totals(shape);
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double size = real(dtype_bytes(shape.dtype)), dim = real(shape.head_dim);
  const double kv_size = real(dtype_bytes(shape.kv_dtype())), q_size = real(dtype_bytes(shape.q_dtype()));
  const double rows = real(totals.new_tokens * shape.q_heads);
  Cost cost;
  cost.read_bytes = rows * dim * q_size + 2 * totals.visible * real(shape.kv_heads) * dim * kv_size;
  cost.read_bytes += 4 * real(shape.batch + 1);                                // q_offsets
  cost.read_bytes += 4 * real(shape.paged() ? shape.batch : shape.batch + 1);  // kv_lengths or kv_offsets
  cost.read_bytes += 4 * real(totals.pages + (shape.sinks ? shape.q_heads : 0));
  cost.written_bytes = rows * dim * size + (shape.lse ? 4 * rows : 0);
  if (shape.narrow) cost.read_bytes += (shape.narrow_queries ? 3 : 2) * 4 * real(shape.kv_scales());
  // Keys and values of e4m3 are widened to fp16 before they are multiplied, unless queries are e4m3, too.
  double& flops = shape.narrow_queries                          ? cost.flops.e4m3
                  : shape.dtype == DType::bf16 && !shape.narrow ? cost.flops.bf16
                                                                : cost.flops.fp16;
  flops = 4 * totals.pairs * real(shape.q_heads) * dim;
  cost.inputs = shape.has_past() ? Inputs::cold : Inputs::warm;
  return cost;
}

}  // namespace moetune
