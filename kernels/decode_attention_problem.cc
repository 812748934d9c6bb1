#include "kernels/decode_attention_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::int64_t kMaximumKvBytes = std::int64_t{256} << 30;

[[noreturn]] void refuse(const std::string& rule) { throw BadInput("decode_attention: " + rule); }

Dimension integer(std::string name, std::string doc, std::int64_t fallback, std::int64_t minimum,
                  std::int64_t maximum) {
  return {std::move(name), std::move(doc), Value::integer(fallback), minimum, maximum, {}};
}

Dimension choice(std::string name, std::string doc, std::vector<std::string> names) {
  const Value fallback = Value::named(names.front(), 0);
  return {std::move(name), std::move(doc), fallback, 0, 0, std::move(names)};
}

Preset preset(std::string name, std::string doc, std::string q_heads, std::string kv_heads,
              std::string head_dim) {
  return {std::move(name),
          std::move(doc),
          {{"q_heads", std::move(q_heads)},
           {"kv_heads", std::move(kv_heads)},
           {"head_dim", std::move(head_dim)}}};
}

void require_one_of(const Problem& problem, const std::string& name,
                    const std::vector<std::int64_t>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), problem[name]) != allowed.end()) return;
  std::string list;
  for (std::int64_t value : allowed) list += (list.empty() ? "" : ", ") + std::to_string(value);
  refuse(name + "=" + std::to_string(problem[name]) + " is not supported; it takes one of " + list);
}

}  // namespace

DecodeShape::DecodeShape(const Problem& problem)
    : batch(problem["batch"]),
      q_heads(problem["q_heads"]),
      kv_heads(problem["kv_heads"]),
      head_dim(problem["head_dim"]),
      context(problem["context"]),
      page(problem["page"]),
      dtype(problem.is("dtype", "fp16") ? DType::f16 : DType::bf16),
      ragged(problem.is("lengths", "ragged")),
      heads_first(problem.is("layout", "hnd")) {}

std::vector<std::int64_t> DecodeShape::lengths() const {
  std::vector<std::int64_t> all(static_cast<std::size_t>(batch), context);
  if (!ragged) return all;
  std::mt19937_64 random(0x6d6f6574756e65);  // any constant: the lengths belong to the problem
  for (std::int64_t& length : all) {
    length = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(context));
  }
  all.front() = context;
  if (batch > 1) all.back() = 1;
  return all;
}

std::int64_t DecodeShape::used_pages() const {
  std::int64_t used = 0;
  for (std::int64_t length : lengths()) used += pages_of(length);
  return used;
}

std::int64_t DecodeShape::blocks() const {
  if (!paged()) return batch;
  const std::int64_t used = used_pages();
  return used + std::max<std::int64_t>(3, used / 16);
}

KvStrides DecodeShape::strides() const {
  const std::int64_t tokens = tokens_per_block(), block = kv_heads * tokens * head_dim;
  if (heads_first) return {block, tokens * head_dim, head_dim};
  return {block, head_dim, kv_heads * head_dim};
}

float DecodeShape::scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim))); }

const ProblemSchema& decode_attention_schema() {
  static const ProblemSchema schema = {
      integer("batch", "sequences, one query token each", 64, 1, 65535),
      integer("q_heads", "query heads", 64, 1, 1024),
      integer("kv_heads", "key and value heads; q_heads is a multiple of it", 8, 1, 1024),
      integer("head_dim", "elements of a head: 64, 128 or 256", 128, 64, 256),
      integer("context", "tokens in the KV cache of the longest sequence", 8192, 1, std::int64_t{1} << 22),
      choice("dtype", "type of queries, keys, values and output", {"bf16", "fp16"}),
      integer("page", "tokens a KV page: 16, 64 or 128; 0 for contiguous KV", 0, 0, 128),
      choice("lengths", "every sequence as long as context, or uniform in [1, context]", {"full", "ragged"}),
      choice("layout", "KV as [batch or page, head, token, dim] or [batch or page, token, head, dim]",
             {"hnd", "nhd"}),
  };
  return schema;
}

const std::vector<Preset>& decode_attention_presets() {
  static const std::vector<Preset> presets = {
      preset("qwen3-30b-a3b", "Qwen3-30B-A3B", "32", "4", "128"),
      preset("qwen3-235b-a22b", "Qwen3-235B-A22B", "64", "4", "128"),
      preset("mixtral-8x7b", "Mixtral 8x7B", "32", "8", "128"),
      preset("llama-3-70b", "Llama 3 70B", "64", "8", "128"),
      preset("gpt-oss-20b", "gpt-oss-20b, its full-attention layers; sinks are not computed", "64", "8",
             "64"),
      preset("gpt-oss-120b", "gpt-oss-120b, its full-attention layers; sinks are not computed", "64", "8",
             "64"),
  };
  return presets;
}

void check_decode_attention(const Problem& problem) {
  require_one_of(problem, "head_dim", {64, 128, 256});
  require_one_of(problem, "page", {0, 16, 64, 128});
  if (problem["q_heads"] % problem["kv_heads"] != 0) {
    refuse("q_heads=" + std::to_string(problem["q_heads"]) +
           " is not a multiple of kv_heads=" + std::to_string(problem["kv_heads"]));
  }
  // 2^16 * 2^22 * 2^10 * 2^8 elements of 2 bytes, twice: 2^58 at most, so this cannot overflow.
  const std::int64_t kv_bytes =
      problem["batch"] * problem["context"] * problem["kv_heads"] * problem["head_dim"] * 4;
  if (kv_bytes > kMaximumKvBytes) {
    refuse("keys and values would take " + std::to_string(kv_bytes >> 30) + " GiB; at most " +
           std::to_string(kMaximumKvBytes >> 30) + " GiB are supported");
  }
}

Cost decode_attention_cost(const DecodeShape& shape) {
  const std::vector<std::int64_t> lengths = shape.lengths();
  const auto tokens = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const auto size = static_cast<double>(dtype_bytes(shape.dtype));
  const auto heads = static_cast<double>(shape.q_heads), dim = static_cast<double>(shape.head_dim);
  const auto batch = static_cast<double>(shape.batch);
  Cost cost;
  cost.bytes = 2 * tokens * static_cast<double>(shape.kv_heads) * dim * size;  // keys and values
  cost.bytes += 2 * batch * heads * dim * size;                                // query and output
  cost.bytes += batch * 4;                                                     // lengths
  if (shape.paged()) cost.bytes += static_cast<double>(shape.used_pages()) * 4;
  cost.flops = 4 * tokens * heads * dim;
  return cost;
}

}  // namespace moetune
