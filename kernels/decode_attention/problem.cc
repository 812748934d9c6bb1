#include "kernels/decode_attention/problem.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>

#include "base/error.h"
#include "base/integers.h"
#include "kernels/attention/call.h"

namespace moetune {
namespace {

constexpr std::int64_t kMaximumKvBytes = std::int64_t{256} << 30;
constexpr std::int64_t kMaximumPageEntries = std::int64_t{64} << 20;  // inputs travel to the worker

[[noreturn]] void refuse_problem(const std::string& rule) { throw BadInput("decode_attention: " + rule); }

Preset preset(std::string name, std::string doc, std::string q_heads, std::string kv_heads, std::string head_dim) {
  return {std::move(name),
          std::move(doc),
          {{"q_heads", std::move(q_heads)}, {"kv_heads", std::move(kv_heads)}, {"head_dim", std::move(head_dim)}}};
}

Preset gpt_oss(std::string name, std::string doc, std::string window) {
  Preset made = preset(std::move(name), std::move(doc), "64", "8", "64");
  made.dims.insert(made.dims.end(), {{"window", std::move(window)}, {"sinks", "learned"}});
  return made;
}

}  // namespace

DecodeShape::DecodeShape(const Problem& problem)
    : batch(problem["batch"]),
      q_heads(problem["q_heads"]),
      kv_heads(problem["kv_heads"]),
      head_dim(problem["head_dim"]),
      context(problem["context"]),
      page(problem["page"]),
      window(problem["window"]),
      softcap(problem["softcap"]),
      q_len(problem["q_len"]),
      dtype(problem.is("dtype", "fp16") ? DType::f16 : DType::bf16),
      ragged(problem.is("lengths", "ragged")),
      heads_first(problem.is("layout", "hnd")),
      sinks(problem.is("sinks", "learned")),
      narrow(problem.is("kv_dtype", "e4m3")),
      head_scales(problem.is("kv_scale", "head")),
      lse(problem.is("lse", "natural")) {}

std::vector<std::int64_t> DecodeShape::lengths() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(batch), context);
  if (!ragged) return all;
  std::mt19937_64 random(0x6d6f6574756e65);  // any constant: the lengths belong to the problem
  for (std::int64_t& length : all) {
    length = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(context));
  }
  all.front() = context;
  if (batch > 1) all.back() = 1;
  if (batch > 2) all[all.size() / 2] = 0;
  return all;
}

std::int64_t DecodeShape::first_visible(std::int64_t length) const {
  return window == 0 ? 0 : std::max<std::int64_t>(0, length - (q_len - 1) - window);
}

std::int64_t DecodeShape::used_pages() const {
  std::int64_t used = 0;
  for (std::int64_t length : lengths()) used += pages_of(length) - first_page(length);
  return used;
}

std::int64_t DecodeShape::default_blocks() const {
  if (!paged()) return batch;
  const std::int64_t used = used_pages();
  return used + std::max<std::int64_t>(3, used / 16);
}

DecodeShape DecodeShape::at(const Extents& extents) const {
  DecodeShape other = *this;
  other.batch = extents[0];
  other.kv_heads = extents[1];
  other.q_heads = group() * other.kv_heads;
  other.context = extents[2];
  return other;
}

Assignment DecodeShape::specialization() const {
  const auto named = [](std::string_view name) { return Value::named(name, 0); };
  Assignment compiled = {{"group", Value::integer(group())},
                         {"head_dim", Value::integer(head_dim)},
                         {"dtype", named(dtype == DType::f16 ? "fp16" : "bf16")},
                         {"page", Value::integer(page)},
                         {"window", Value::integer(window)},
                         {"sinks", named(sinks ? "learned" : "none")},
                         {"q_len", Value::integer(q_len)},
                         {"lse", named(lse ? "natural" : "none")},
                         {"kv_dtype", named(narrow ? "e4m3" : "same")},
                         {"kv_scale", named(head_scales ? "head" : "tensor")}};
  if (softcap > 0) compiled.set("softcap", Value::integer(softcap));  // others are named as before there was any
  return compiled;
}

const ProblemSchema& decode_attention_schema() {
  static const ProblemSchema schema = {
      integer_dimension("batch", "sequences", 64, 1, 65535),
      integer_dimension("q_heads", "query heads", 64, 1, 1024),
      integer_dimension("kv_heads", "key and value heads; q_heads is a multiple of it", 8, 1, 1024),
      integer_dimension("head_dim", kHeadDimDoc, 128, 64, 256),
      integer_dimension("context", "tokens in the KV cache of the longest sequence", 8192, 1, std::int64_t{1} << 22),
      named_dimension("dtype", "type of queries and output, and of keys and values if kv_dtype is the same",
                      {"bf16", "fp16"}),
      integer_dimension("page", "tokens a KV page: 1, 16, 32, 64, 128 or 256; 0 for contiguous KV", 0, 0, 256),
      named_dimension("lengths", "every sequence as long as context, or uniform in [1, context], with an empty one",
                      {"full", "ragged"}),
      named_dimension("layout", "KV as [batch or page, head, token, dim] or [batch or page, token, head, dim]",
                      {"hnd", "nhd"}),
      integer_dimension("window", "tokens a query sees, itself included; 0 for all", 0, 0, std::int64_t{1} << 22),
      named_dimension("sinks", "no sinks, or a learned logit of every query head in the softmax denominator",
                      {"none", "learned"}),
      integer_dimension("q_len", "new tokens of a sequence, causal among themselves", 1, 1, 8),
      named_dimension("lse", "whether the natural logarithm of the softmax denominator is an output",
                      {"none", "natural"}),
      named_dimension("kv_dtype", "type of keys and values: that of queries, or e4m3 with scales", {"same", "e4m3"}),
      named_dimension("kv_scale", "e4m3: one scale for all keys and one for all values, or for every KV head",
                      {"tensor", "head"}),
      integer_dimension("softcap", kSoftcapDoc, 0, 0, kMostSoftcap),
  };
  return schema;
}

std::string decode_attention_advice(std::string_view preset) {
  const bool latent =
      preset.starts_with("deepseek-v3") || preset.starts_with("deepseek-r1") || preset.starts_with("kimi-k2");
  return latent ? "That model attends over a compressed latent (MLA): search mla_decode" : "";
}

const std::vector<Preset>& decode_attention_presets() {
  static const std::vector<Preset> presets = {
      preset("qwen3-30b-a3b", "Qwen3-30B-A3B", "32", "4", "128"),
      preset("qwen3-235b-a22b", "Qwen3-235B-A22B", "64", "4", "128"),
      preset("mixtral-8x7b", "Mixtral 8x7B", "32", "8", "128"),
      preset("llama-3-70b", "Llama 3 70B", "64", "8", "128"),
      gpt_oss("gpt-oss-20b", "gpt-oss-20b, its full-attention layers", "0"),
      gpt_oss("gpt-oss-20b-window", "gpt-oss-20b, its sliding-window layers", "128"),
      gpt_oss("gpt-oss-120b", "gpt-oss-120b, its full-attention layers", "0"),
      gpt_oss("gpt-oss-120b-window", "gpt-oss-120b, its sliding-window layers", "128"),
  };
  return presets;
}

void check_decode_attention(const Problem& problem) {
  require_one_of(problem, "head_dim", {std::begin(kHeadDims), std::end(kHeadDims)});
  require_one_of(problem, "page", {0, 1, 16, 32, 64, 128, 256});
  if (problem["q_heads"] % problem["kv_heads"] != 0) {
    refuse_problem("q_heads=" + std::to_string(problem["q_heads"]) +
                   " is not a multiple of kv_heads=" + std::to_string(problem["kv_heads"]));
  }
  if (problem.is("kv_scale", "head") && !problem.is("kv_dtype", "e4m3")) {
    refuse_problem("kv_scale=head needs kv_dtype=e4m3: other keys and values have no scales");
  }
  if (const std::optional<std::string> rule = exceeded_size(DecodeShape(problem))) refuse_problem(*rule);
}

std::optional<std::string> exceeded_size(const DecodeShape& shape) {
  // 2^16 * 2^22 * 2^10 * 2^8 elements of 2 bytes, twice: 2^58 at most, so this cannot overflow.
  const std::int64_t kv_bytes = shape.batch * shape.context * shape.kv_heads * shape.head_dim * (shape.narrow ? 2 : 4);
  if (kv_bytes > kMaximumKvBytes) {
    return "keys and values would take " + std::to_string(ceil_div(kv_bytes, std::int64_t{1} << 30)) +
           " GiB; at most " + std::to_string(kMaximumKvBytes >> 30) + " GiB are supported";
  }
  if (const std::int64_t entries = shape.batch * shape.default_pages(); entries > kMaximumPageEntries) {
    return "the page table would have " + std::to_string(entries) + " entries; at most " +
           std::to_string(kMaximumPageEntries) + " are supported: take larger pages";
  }
  return std::nullopt;
}

Problem decode_attention_problem_of(const Assignment& specialization, const Extents& extents) {
  const Value* const group = specialization.find("group");
  if (group == nullptr || group->is_named() || group->number < 1 || group->number > 1024)
    refuse_problem("a specialization needs group=1 to 1024, the query heads that share a KV head");
  if (extents.size() != 3) refuse_problem("a problem of a family needs batch, kv_heads and context");
  std::string text = "batch=" + std::to_string(extents[0]) +
                     ",q_heads=" + std::to_string(group->number * std::min<std::int64_t>(extents[1], 1 << 20)) +
                     ",kv_heads=" + std::to_string(extents[1]) + ",context=" + std::to_string(extents[2]);
  for (const auto& [name, value] : specialization) {
    if (name != "group") text += "," + name + "=" + value.text();
  }
  Problem problem = parse_problem("decode_attention", decode_attention_schema(), nullptr, text);
  check_decode_attention(problem);
  return problem;
}

Cost decode_attention_cost(const DecodeShape& shape) {
  double tokens = 0, pairs = 0;  // tokens that any query sees; queries times the tokens each sees
  for (const std::int64_t length : shape.lengths()) {
    tokens += static_cast<double>(length - shape.first_visible(length));
    for (std::int64_t query = 0; query < shape.q_len; ++query) {
      const std::int64_t end = std::max<std::int64_t>(0, length - (shape.q_len - 1) + query);
      pairs += static_cast<double>(shape.window == 0 ? end : std::min(end, shape.window));
    }
  }
  const auto size = static_cast<double>(dtype_bytes(shape.dtype));
  const auto kv_size = static_cast<double>(dtype_bytes(shape.kv_dtype()));
  const auto dim = static_cast<double>(shape.head_dim), rows = static_cast<double>(shape.query_rows());
  Cost cost;
  cost.read_bytes = 2 * tokens * static_cast<double>(shape.kv_heads) * dim * kv_size;  // keys and values
  cost.read_bytes += rows * dim * size;                                                // query
  cost.read_bytes += static_cast<double>(shape.batch) * 4;                             // lengths
  if (shape.paged()) cost.read_bytes += static_cast<double>(shape.used_pages()) * 4;
  if (shape.sinks) cost.read_bytes += static_cast<double>(shape.q_heads) * 4;
  if (shape.narrow) cost.read_bytes += 2 * static_cast<double>(shape.kv_scales()) * 4;
  cost.written_bytes = rows * dim * size;
  if (shape.lse) cost.written_bytes += rows * 4;
  // Keys and values of e4m3 are widened to fp16 before they are multiplied.
  const bool bf16 = shape.dtype == DType::bf16 && !shape.narrow;
  (bf16 ? cost.flops.bf16 : cost.flops.fp16) = 4 * pairs * static_cast<double>(shape.q_heads) * dim;
  return cost;
}

}  // namespace moetune
