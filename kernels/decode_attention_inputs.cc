#include "kernels/decode_attention_inputs.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "base/error.h"

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

Occupancy occupy_pages(const DecodeShape& shape, const DecodeCall& call,
                       const std::vector<std::int64_t>& lengths, std::mt19937_64& random) {
  if (shape.used_pages() > call.blocks) {
    throw BadInput("decode_attention: the sequences need " + std::to_string(shape.used_pages()) +
                   " pages and kv_blocks=" + std::to_string(call.blocks));
  }
  const auto blocks = static_cast<std::size_t>(call.blocks);
  std::vector<std::int32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random);
  Occupancy occupancy{{}, std::vector<Range>(blocks)};
  occupancy.page_table.reserve(static_cast<std::size_t>(shape.batch * call.page_table_stride));
  auto next = order.begin();
  for (std::int64_t length : lengths) {
    for (std::int64_t entry = 0; entry < call.page_table_stride; ++entry) {
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

// Runs of elements that lie together, in any order.
class Runs {
 public:
  void add(std::int64_t begin, std::int64_t count) {
    if (count > 0) runs_.push_back({begin, count});
  }

  // The rest of `elements`, in ascending order with neighbours joined.
  std::vector<Range> complement(std::int64_t elements) {
    const auto before = [](const Range& a, const Range& b) { return a.begin < b.begin; };
    if (!std::is_sorted(runs_.begin(), runs_.end(), before)) std::sort(runs_.begin(), runs_.end(), before);
    std::vector<Range> gaps;
    std::int64_t at = 0;
    for (const Range& run : runs_) {
      if (run.begin > at) gaps.push_back({at, run.begin - at});
      at = std::max(at, run.begin + run.count);
    }
    if (at < elements) gaps.push_back({at, elements - at});
    return gaps;
  }

 private:
  std::vector<Range> runs_;
};

// The keys or values that some query sees, in as few runs as the strides allow.
void add_used(Runs& runs, const DecodeShape& shape, const KvStrides& strides, std::int64_t offset,
              const std::vector<Range>& used) {
  const std::int64_t dim = shape.head_dim, heads = shape.kv_heads;
  const bool tokens_meet = strides.token == dim,
             heads_meet = strides.head == dim && strides.token == heads * dim;
  for (std::size_t block = 0; block < used.size(); ++block) {
    const std::int64_t begin = offset + static_cast<std::int64_t>(block) * strides.block;
    const std::int64_t first = used[block].begin, count = used[block].count;
    if (heads_meet) {
      runs.add(begin + first * strides.token, count * strides.token);
      continue;
    }
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t row = begin + head * strides.head + first * strides.token;
      if (tokens_meet) {
        runs.add(row, count * dim);
      } else {
        for (std::int64_t token = 0; token < count; ++token) runs.add(row + token * strides.token, dim);
      }
    }
  }
}

std::vector<Range> unused_kv(const DecodeShape& shape, const DecodeCall& call, bool values,
                             const std::vector<Range>& used, std::int64_t elements) {
  Runs runs;
  if (!values) add_used(runs, shape, call.k, 0, used);
  if (values || call.v_offset > 0) add_used(runs, shape, call.v, call.v_offset, used);
  return runs.complement(elements);
}

std::vector<Range> between_rows(const DecodeShape& shape, const RowStrides& strides, std::int64_t elements) {
  if (elements == shape.query_rows() * shape.head_dim) return {};
  Runs runs;
  for (std::int64_t row = 0; row < shape.query_rows(); ++row)
    runs.add(row_offset(strides, shape, row), shape.head_dim);
  return runs.complement(elements);
}

// Rounding o to bf16 alone gives a dissimilarity near 1e-6.
constexpr Tolerance kTolerance{1e-5, 2.0, 1e-6};

Buffer output_buffer(std::string name, DType type, std::int64_t elements) {
  Buffer buffer{std::move(name), type, elements, Role::output, false, {}};
  buffer.check = OutputCheck::within(kTolerance);
  return buffer;
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

std::vector<Buffer> kv_buffers(const DecodeShape& shape, const DecodeCall& call,
                               const std::vector<Range>& used) {
  std::vector<Buffer> buffers;
  for (const bool values : {false, true}) {
    if (values && call.v_offset > 0) break;
    std::int64_t elements = call.kv_elements(values ? call.v : call.k, shape);
    if (call.v_offset > 0) elements = std::max(elements, call.v_offset + call.kv_elements(call.v, shape));
    Buffer kv =
        normal_buffer(values ? "v" : "k", shape.kv_dtype(), elements, shape.narrow ? kNarrowScale : 1);
    kv.rotates = true;
    kv.fill.poison = unused_kv(shape, call, values, used, elements);
    buffers.push_back(std::move(kv));
  }
  return buffers;
}

}  // namespace

std::vector<Buffer> decode_attention_buffers(const DecodeShape& shape, const DecodeCall& call,
                                             std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> lengths = shape.lengths();
  shuffle(lengths, random);
  const Occupancy occupancy =
      shape.paged() ? occupy_pages(shape, call, lengths, random) : occupy_sequences(shape, lengths);

  const std::int64_t q_elements = call.row_elements(call.q, shape);
  std::vector<Buffer> buffers;
  buffers.push_back(normal_buffer("q", shape.dtype, q_elements, kQueryScale));
  buffers.back().fill.poison = between_rows(shape, call.q, q_elements);
  for (Buffer& kv : kv_buffers(shape, call, occupancy.used)) buffers.push_back(std::move(kv));
  if (shape.narrow) {
    buffers.push_back(scale_buffer("k_scale", shape.kv_scales(), 1));
    buffers.push_back(scale_buffer("v_scale", shape.kv_scales(), 2));
  }
  if (shape.paged()) buffers.push_back(integer_buffer("page_table", occupancy.page_table));
  buffers.push_back(integer_buffer("lengths", {lengths.begin(), lengths.end()}));
  if (shape.sinks) buffers.push_back(normal_buffer("sinks", DType::f32, shape.q_heads, kSinkScale));
  buffers.push_back(output_buffer("o", shape.dtype, call.row_elements(call.o, shape)));
  if (shape.lse) buffers.push_back(output_buffer("lse", DType::f32, shape.query_rows()));
  return buffers;
}

}  // namespace moetune
