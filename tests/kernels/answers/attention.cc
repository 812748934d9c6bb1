#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "kernels/decode_attention/call.h"
#include "kernels/prefill_attention/call.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// The keys and values of one head of one sequence.
struct SequenceKv {
  const KvTensors& kv;
  const HostTensors& inputs;
  std::int64_t head;
  const double* table;        // null for contiguous KV, which lies in
  std::int64_t block, first;  // this block, from this token of it on

  // The row of a token.
  const double* row(bool values, std::int64_t token) const {
    const std::int64_t in = table == nullptr ? block : static_cast<std::int64_t>(table[token / kv.tokens]);
    const std::int64_t within = table == nullptr ? first + token : token % kv.tokens;
    const KvStrides& by = kv.strides(values);
    return inputs.at(values && kv.v_offset == 0 ? "v" : "k").data() + (values ? kv.v_offset : 0) + in * by.block +
           head * by.head + within * by.token;
  }
};

struct AttentionQuery {
  const double* q;
  Range visible;
  double key_scale, value_scale, sink, softcap;
};

double softcapped(double score, double cap) { return cap > 0 ? cap * std::tanh(score / cap) : score; }

// Writes the query's row of o, and returns the logarithm of its denominator.
double attend(const SequenceKv& own, const AttentionQuery& query, double* o) {
  const std::int64_t dim = own.kv.head_dim;
  std::fill(o, o + dim, 0.0);
  std::vector<double> scores;
  double highest = query.sink;
  for (std::int64_t i = 0; i < query.visible.count; ++i) {
    const double* const key = own.row(false, query.visible.begin + i);
    double dot = 0;
    for (std::int64_t d = 0; d < dim; ++d) dot += query.q[d] * key[d];
    scores.push_back(softcapped(dot * query.key_scale, query.softcap));
    highest = std::max(highest, scores.back());
  }
  if (std::isinf(highest)) return highest;  // neither a token nor a sink
  double denominator = std::exp(query.sink - highest);
  for (double& score : scores) denominator += score = std::exp(score - highest);
  for (std::int64_t i = 0; i < query.visible.count; ++i) {
    const double* const value = own.row(true, query.visible.begin + i);
    const double weight = query.value_scale * scores[static_cast<std::size_t>(i)] / denominator;
    for (std::int64_t d = 0; d < dim; ++d) o[d] += weight * value[d];
  }
  return highest + std::log(denominator);
}

// A query of one head; e4m3 keys and values have scales of their own.
template <typename Shape>
AttentionQuery query_of(const Shape& shape, double scale, const HostTensors& inputs, std::int64_t head, const double* q,
                        const Range& visible) {
  const auto factor = [&](const char* name) {
    const std::int64_t at = shape.head_scales ? head / shape.group() : 0;
    return shape.narrow ? inputs.at(name)[static_cast<std::size_t>(at)] : 1;
  };
  if constexpr (requires { shape.narrow_queries; }) {
    if (shape.narrow_queries) scale *= factor("q_scale");
  }
  return {q,
          visible,
          factor("k_scale") * scale,
          factor("v_scale"),
          shape.sinks ? inputs.at("sinks")[static_cast<std::size_t>(head)] : kNothing,
          static_cast<double>(shape.softcap)};
}

// Sequence `index` of a batch: where its queries and its KV begin.
struct PlacedSequence {
  PlacedSequence(const PrefillShape& shape, const PrefillCall& call, const HostTensors& inputs, std::size_t index) {
    const auto offset = [&](const char* name, std::size_t at, std::int64_t most) {
      return std::clamp<std::int64_t>(static_cast<std::int64_t>(inputs.at(name)[at]), 0, most);
    };
    q_begin = offset("q_offsets", index, call.q_tokens);
    of.new_tokens = std::max<std::int64_t>(0, offset("q_offsets", index + 1, call.q_tokens) - q_begin);
    if (shape.paged()) {
      of.tokens = offset("kv_lengths", index, call.capacity);
      table = inputs.at("page_table").data() + static_cast<std::int64_t>(index) * call.page_table_stride;
    } else {
      kv_begin = offset("kv_offsets", index, call.capacity);
      of.tokens = std::max<std::int64_t>(0, offset("kv_offsets", index + 1, call.capacity) - kv_begin);
    }
  }

  PrefillSequence of;
  std::int64_t q_begin = 0, kv_begin = 0;
  const double* table = nullptr;
};

}  // namespace

HostTensors decode_attention_on_cpu(const Problem& problem, const Call& given, const HostTensors& inputs) {
  const DecodeShape shape(problem);
  const DecodeCall call(given);
  const KvTensors kv = call.kv(shape);
  std::vector<double> o(static_cast<std::size_t>(call.row_elements(call.o, shape)), kUnwritten), lse;
  for (std::int64_t row = 0; row < shape.query_rows(); ++row) {
    const std::int64_t head = row % shape.q_heads, query = row / shape.q_heads % shape.q_len;
    const std::int64_t sequence = row / shape.q_heads / shape.q_len;
    const auto stored = static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]);
    const std::int64_t length = std::clamp<std::int64_t>(stored, 0, call.capacity);
    const std::int64_t end = std::max<std::int64_t>(0, length - (shape.q_len - 1) + query);
    const std::int64_t begin = shape.window == 0 ? 0 : std::max<std::int64_t>(0, end - shape.window);
    const double* const table =
        shape.paged() ? inputs.at("page_table").data() + sequence * call.page_table_stride : nullptr;
    const double* const q = inputs.at("q").data() + row_offset(call.q, shape, row);
    lse.push_back(attend({kv, inputs, head / shape.group(), table, sequence, 0},
                         query_of(shape, call.scale, inputs, head, q, {begin, end - begin}),
                         o.data() + row_offset(call.o, shape, row)));
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (shape.lse) outputs["lse"] = std::move(lse);
  return outputs;
}

HostTensors prefill_attention_on_cpu(const Problem& problem, const Call& given, const HostTensors& inputs) {
  const PrefillShape shape(problem);
  const PrefillCall call(given);
  const KvTensors kv = call.kv(shape);
  std::vector<double> o(static_cast<std::size_t>(call.row_elements(call.o, shape)), kUnwritten);
  std::vector<double> lse(static_cast<std::size_t>(call.q_tokens * shape.q_heads), kUnwritten);
  for (std::size_t index = 0; index < static_cast<std::size_t>(shape.batch); ++index) {
    const PlacedSequence sequence(shape, call, inputs, index);
    for (std::int64_t row = 0; row < sequence.of.new_tokens; ++row) {
      const Range visible = shape.visible(sequence.of, row);
      for (std::int64_t head = 0; head < shape.q_heads; ++head) {
        const std::int64_t token = sequence.q_begin + row;
        const double* const q = inputs.at("q").data() + token * call.q.token + head * call.q.head;
        lse[static_cast<std::size_t>(token * shape.q_heads + head)] =
            attend({kv, inputs, head / shape.group(), sequence.table, 0, sequence.kv_begin},
                   query_of(shape, call.scale, inputs, head, q, visible),
                   o.data() + token * call.o.token + head * call.o.head);
      }
    }
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (shape.lse) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
