#include "kernels/decode_attention_inputs.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace moetune {
namespace {

// Scores q.k / sqrt(head_dim) then have this standard deviation: softmax is neither flat nor one-hot.
constexpr float kQueryScale = 1.5f;

// Fisher-Yates; std::shuffle's order differs between standard libraries.
template <typename T>
void shuffle(std::vector<T>& items, std::mt19937_64& random) {
  for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[random() % left]);
}

// Learned sinks are about as large as the logarithm of a short sequence's denominator, so that they matter.
constexpr float kSinkScale = 3;

// Quantized values lie inside e4m3's normal range, and scales bring them near 1; they differ from head to
// head, and between keys and values.
constexpr float kNarrowScale = 0.5f;

// Which tokens of each block (sequence or page) hold KV that some query sees.
struct Occupancy {
  std::vector<std::int32_t> page_table;
  std::vector<Range> used;
};

Occupancy occupy_sequences(const DecodeShape& shape, const std::vector<std::int64_t>& lengths) {
  Occupancy occupancy;
  for (std::int64_t length : lengths) {
    const std::int64_t first = shape.first_visible(length);
    occupancy.used.push_back({first, length - first});
  }
  return occupancy;
}

Occupancy occupy_pages(const DecodeShape& shape, const std::vector<std::int64_t>& lengths,
                       std::mt19937_64& random) {
  const auto blocks = static_cast<std::size_t>(shape.blocks());
  std::vector<std::int32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random);
  Occupancy occupancy{{}, std::vector<Range>(blocks)};
  occupancy.page_table.reserve(static_cast<std::size_t>(shape.batch * shape.max_pages()));
  auto next = order.begin();
  for (std::int64_t length : lengths) {
    for (std::int64_t entry = 0; entry < shape.max_pages(); ++entry) {
      const std::int64_t first = std::max<std::int64_t>(0, shape.first_visible(length) - entry * shape.page);
      const std::int64_t end = std::min(shape.page, length - entry * shape.page);
      if (first >= end) {
        occupancy.page_table.push_back(kGarbagePage);
        continue;
      }
      occupancy.used[static_cast<std::size_t>(*next)] = {first, end - first};
      occupancy.page_table.push_back(*next++);
    }
  }
  return occupancy;
}

void append(std::vector<Range>& ranges, Range range) {
  if (range.count == 0) return;
  if (!ranges.empty() && ranges.back().begin + ranges.back().count == range.begin) {
    ranges.back().count += range.count;
  } else {
    ranges.push_back(range);
  }
}

// The complement of what is used, in ascending order with neighbours joined.
std::vector<Range> unused_elements(const DecodeShape& shape, const std::vector<Range>& used) {
  const KvStrides strides = shape.strides();
  const std::int64_t tokens = shape.tokens_per_block();
  const std::int64_t runs = shape.heads_first ? shape.kv_heads : 1;  // of all a block's tokens each
  std::vector<Range> ranges;
  for (std::size_t block = 0; block < used.size(); ++block) {
    const std::int64_t end = used[block].begin + used[block].count;
    for (std::int64_t run = 0; run < runs; ++run) {
      const std::int64_t begin = static_cast<std::int64_t>(block) * strides.block + run * strides.head;
      append(ranges, {begin, used[block].begin * strides.token});
      append(ranges, {begin + end * strides.token, (tokens - end) * strides.token});
    }
  }
  return ranges;
}

Buffer normal_buffer(std::string name, DType type, std::int64_t elements, float scale) {
  Buffer buffer{std::move(name), type, elements, Role::input, false, {}};
  buffer.fill.kind = Fill::Kind::normal;
  buffer.fill.scale = scale;
  return buffer;
}

Buffer integer_buffer(std::string name, std::vector<std::int32_t> values) {
  Buffer buffer{std::move(name), DType::i32, static_cast<std::int64_t>(values.size()),
                Role::input,     false,      {}};
  buffer.fill.kind = Fill::Kind::integers;
  buffer.fill.integers = std::move(values);
  return buffer;
}

// Scales are whole numbers, from 1 to 3: a fill's integers are exact in every type.
Buffer scale_buffer(std::string name, std::int64_t count, std::int32_t first) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(1 + static_cast<std::int32_t>((first + i) % 3));
  Buffer buffer = integer_buffer(std::move(name), std::move(values));
  buffer.dtype = DType::f32;
  return buffer;
}

}  // namespace

std::vector<Buffer> decode_attention_buffers(const DecodeShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> lengths = shape.lengths();
  shuffle(lengths, random);
  const Occupancy occupancy =
      shape.paged() ? occupy_pages(shape, lengths, random) : occupy_sequences(shape, lengths);

  const std::int64_t q_elements = shape.query_rows() * shape.head_dim;
  std::vector<Buffer> buffers;
  buffers.push_back(normal_buffer("q", shape.dtype, q_elements, kQueryScale));
  for (const char* name : {"k", "v"}) {
    Buffer kv = normal_buffer(name, shape.kv_dtype(), shape.kv_elements(), shape.narrow ? kNarrowScale : 1);
    kv.rotates = true;
    kv.fill.poison = unused_elements(shape, occupancy.used);
    buffers.push_back(std::move(kv));
  }
  if (shape.narrow) {
    buffers.push_back(scale_buffer("k_scale", shape.kv_scales(), 1));
    buffers.push_back(scale_buffer("v_scale", shape.kv_scales(), 2));
  }
  if (shape.paged()) buffers.push_back(integer_buffer("page_table", occupancy.page_table));
  buffers.push_back(integer_buffer("lengths", {lengths.begin(), lengths.end()}));
  if (shape.sinks) buffers.push_back(normal_buffer("sinks", DType::f32, shape.q_heads, kSinkScale));
  buffers.push_back({"o", shape.dtype, q_elements, Role::output, false, {}});
  if (shape.lse) buffers.push_back({"lse", DType::f32, shape.query_rows(), Role::output, false, {}});
  return buffers;
}

}  // namespace moetune
