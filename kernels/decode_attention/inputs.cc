#include "kernels/decode_attention/inputs.h"

#include <random>
#include <string>
#include <utility>

namespace moetune {
namespace {

// The tokens of each sequence that its queries see; sequence `i` begins with number i * `room`.
std::vector<Range> visible_tokens(const DecodeShape& shape, const std::vector<std::int64_t>& lengths,
                                  std::int64_t room) {
  std::vector<Range> visible;
  std::int64_t begin = 0;
  for (std::int64_t length : lengths) {
    const std::int64_t first = shape.first_visible(length);
    visible.push_back({begin + first, length - first});
    begin += room;
  }
  return visible;
}

std::vector<Range> between_rows(const DecodeShape& shape, const RowStrides& strides, std::int64_t elements) {
  if (elements == shape.query_rows() * shape.head_dim) return {};
  Runs runs;
  for (std::int64_t row = 0; row < shape.query_rows(); ++row) runs.add(row_offset(strides, shape, row), shape.head_dim);
  return runs.complement(elements);
}

}  // namespace

std::vector<Buffer> decode_attention_buffers(const DecodeShape& shape, const DecodeCall& call, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> lengths = shape.lengths();
  shuffle(lengths, random);
  const PagePool pool = shape.paged() ? fill_pages("decode_attention", visible_tokens(shape, lengths, 0), shape.page,
                                                   call.blocks, call.page_table_stride, random)
                                      : PagePool{{}, visible_tokens(shape, lengths, call.capacity)};

  const std::int64_t q_elements = call.row_elements(call.q, shape);
  std::vector<Buffer> buffers;
  buffers.push_back(normal_buffer("q", shape.dtype, q_elements, query_scale(kQueryScale, shape.softcap)));
  buffers.back().fresh = true;
  buffers.back().fill.poison = between_rows(shape, call.q, q_elements);
  for (Buffer& kv : kv_buffers(call.kv(shape), pool.used, shape.narrow ? kNarrowScale : 1))
    buffers.push_back(std::move(kv));
  if (shape.narrow) {
    buffers.push_back(scale_buffer("k_scale", shape.kv_scales(), 1));
    buffers.push_back(scale_buffer("v_scale", shape.kv_scales(), 2));
  }
  // Without pages a sequence's KV lies where its place says, and is NaN past its own length.
  const std::int64_t movable = shape.ragged && shape.paged() ? shape.batch : 0;
  if (shape.paged()) buffers.push_back(sequence_rows("page_table", pool.table, movable));
  buffers.push_back(sequence_rows("lengths", {lengths.begin(), lengths.end()}, movable));
  if (shape.sinks) buffers.push_back(normal_buffer("sinks", DType::f32, shape.q_heads, kSinkScale));
  const std::int64_t terms = shape.head_dim + shape.context;
  buffers.push_back(attention_output("o", shape.dtype, call.row_elements(call.o, shape), terms));
  if (shape.lse) buffers.push_back(attention_output("lse", DType::f32, shape.query_rows(), terms));
  return buffers;
}

}  // namespace moetune
