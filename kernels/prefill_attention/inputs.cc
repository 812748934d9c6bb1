#include "kernels/prefill_attention/inputs.h"

#include <random>
#include <string>
#include <utility>

#include "base/error.h"

namespace moetune {
namespace {

// Prefix sums of a member, beginning with 0.
std::vector<std::int32_t> offsets_of(const std::vector<PrefillSequence>& sequences,
                                     std::int64_t PrefillSequence::*count) {
  std::vector<std::int32_t> offsets = {0};
  for (const PrefillSequence& sequence : sequences)
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(sequence.*count));
  return offsets;
}

// Those that other orders may move: without pages a sequence's KV lies where its place says.
std::int64_t movable_sequences(const PrefillShape& shape) { return shape.ragged && shape.paged() ? shape.batch : 0; }

void require_room(const char* field, std::int64_t room, std::int64_t needed) {
  if (room >= needed) return;
  throw BadInput("prefill_attention: the sequences need " + std::to_string(needed) + " tokens and " + field + "=" +
                 std::to_string(room));
}

// Buffers that say where each sequence's KV lies, and the tokens in use, numbered as kv_buffers wants them.
struct Placement {
  std::vector<Buffer> buffers;
  std::vector<Range> used;
};

Placement place_pages(const PrefillShape& shape, const PrefillCall& call, const std::vector<PrefillSequence>& sequences,
                      std::mt19937_64& random) {
  std::vector<Range> visible;
  std::vector<std::int32_t> tokens;
  for (const PrefillSequence& sequence : sequences) {
    visible.push_back(shape.visible(sequence));
    tokens.push_back(static_cast<std::int32_t>(sequence.tokens));
  }
  PagePool pool = fill_pages("prefill_attention", visible, shape.page, call.blocks, call.page_table_stride, random);
  Placement placement{{}, std::move(pool.used)};
  placement.buffers.push_back(sequence_rows("kv_lengths", std::move(tokens), movable_sequences(shape)));
  placement.buffers.push_back(sequence_rows("page_table", std::move(pool.table), movable_sequences(shape)));
  return placement;
}

Placement place_one_after_another(const PrefillShape& shape, const PrefillCall& call,
                                  const std::vector<PrefillSequence>& sequences) {
  std::vector<std::int32_t> offsets = offsets_of(sequences, &PrefillSequence::tokens);
  require_room("capacity", call.capacity, offsets.back());
  Placement placement;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Range visible = shape.visible(sequences[i]);
    placement.used.push_back({offsets[i] + visible.begin, visible.count});
  }
  placement.buffers.push_back(integer_buffer("kv_offsets", std::move(offsets)));
  return placement;
}

std::vector<Range> outside_of_rows(const PrefillShape& shape, const PrefillCall& call, std::int64_t tokens) {
  const std::int64_t elements = call.row_elements(call.q, shape), heads = shape.q_heads;
  Runs runs;
  const bool dense = call.q.head == shape.head_dim && call.q.token == heads * shape.head_dim;
  if (dense) runs.add(0, tokens * call.q.token);
  for (std::int64_t row = 0; row < (dense ? 0 : tokens * heads); ++row)
    runs.add(row / heads * call.q.token + row % heads * call.q.head, shape.head_dim);
  return runs.complement(elements);
}

}  // namespace

std::vector<Buffer> prefill_attention_buffers(const PrefillShape& shape, const PrefillCall& call, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<PrefillSequence> sequences = shape.sequences();
  shuffle(sequences, random);
  const std::vector<std::int32_t> q_offsets = offsets_of(sequences, &PrefillSequence::new_tokens);
  require_room("q_tokens", call.q_tokens, q_offsets.back());
  Placement placement =
      shape.paged() ? place_pages(shape, call, sequences, random) : place_one_after_another(shape, call, sequences);

  std::vector<Buffer> buffers;
  buffers.push_back(normal_buffer("q", shape.q_dtype(), call.row_elements(call.q, shape),
                                  query_scale(shape.narrow_queries ? kNarrowScale : kQueryScale, shape.softcap)));
  buffers.back().fresh = true;
  buffers.back().fill.poison = outside_of_rows(shape, call, q_offsets.back());
  for (Buffer& buffer : kv_buffers(call.kv(shape), placement.used, shape.narrow ? kNarrowScale : 1)) {
    buffer.rotates = shape.has_past();
    buffers.push_back(std::move(buffer));
  }
  if (shape.narrow_queries) buffers.push_back(scale_buffer("q_scale", shape.kv_scales(), 3));
  if (shape.narrow) {
    buffers.push_back(scale_buffer("k_scale", shape.kv_scales(), 1));
    buffers.push_back(scale_buffer("v_scale", shape.kv_scales(), 2));
  }
  buffers.push_back(sequence_offsets("q_offsets", q_offsets, movable_sequences(shape)));
  for (Buffer& buffer : placement.buffers) buffers.push_back(std::move(buffer));
  if (shape.sinks) buffers.push_back(normal_buffer("sinks", DType::f32, shape.q_heads, kSinkScale));
  const std::int64_t terms = shape.head_dim + shape.seqlen_kv;
  buffers.push_back(attention_output("o", shape.dtype, call.row_elements(call.o, shape), terms, shape.narrow_queries));
  if (shape.lse) buffers.push_back(attention_output("lse", DType::f32, call.q_tokens * shape.q_heads, terms));
  return buffers;
}

}  // namespace moetune
