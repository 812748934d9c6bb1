#include "kernels/prefill_attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace moetune {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Sequence `index` of a batch: where its queries begin, and where its KV lies.
struct PlacedSequence {
  PlacedSequence(const PrefillShape& shape, const PrefillCall& call, const HostTensors& inputs,
                 std::size_t index) {
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

  // The first element of a token's row of one head among keys or values.
  std::int64_t row(const KvTensors& kv, bool values, std::int64_t head, std::int64_t token) const {
    const KvStrides& by = kv.strides(values);
    std::int64_t block = 0, within = kv_begin + token;
    if (table != nullptr) {
      block = static_cast<std::int64_t>(table[token / kv.tokens]);
      within = token % kv.tokens;
    }
    return (values ? kv.v_offset : 0) + block * by.block + head * by.head + within * by.token;
  }

  PrefillSequence of;
  std::int64_t q_begin = 0, kv_begin = 0;
  const double* table = nullptr;
};

// The factor of a head's e4m3 keys or values.
double scale_of(const PrefillShape& shape, const HostTensors& inputs, const char* name,
                std::int64_t kv_head) {
  if (!shape.narrow) return 1;
  return inputs.at(name)[shape.head_scales ? static_cast<std::size_t>(kv_head) : 0];
}

// One row of o (added to zeros), and the logarithm of its denominator.
double attend_row(const PlacedSequence& sequence, const KvTensors& kv, double scale,
                  const HostTensors& inputs, std::int64_t head, const Range& visible, const double* q,
                  double sink, double* o) {
  const double* const k = inputs.at("k").data();
  const double* const v = kv.v_offset > 0 ? k : inputs.at("v").data();
  std::vector<double> scores;
  for (std::int64_t i = 0; i < visible.count; ++i) {
    const double* const key = k + sequence.row(kv, false, head, visible.begin + i);
    double dot = 0;
    for (std::int64_t d = 0; d < kv.head_dim; ++d) dot += q[d] * key[d];
    scores.push_back(dot * scale);
  }
  double highest = sink;
  for (const double score : scores) highest = std::max(highest, score);
  if (std::isinf(highest)) return highest;  // neither a token nor a sink
  double denominator = std::exp(sink - highest);
  for (double& score : scores) denominator += score = std::exp(score - highest);
  for (std::int64_t i = 0; i < visible.count; ++i) {
    const double* const value = v + sequence.row(kv, true, head, visible.begin + i);
    const double weight = scores[static_cast<std::size_t>(i)] / denominator;
    for (std::int64_t d = 0; d < kv.head_dim; ++d) o[d] += weight * value[d];
  }
  return highest + std::log(denominator);
}

}  // namespace

HostTensors prefill_attention_on_cpu(const PrefillShape& shape, const PrefillCall& call,
                                     const HostTensors& inputs) {
  constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();
  const KvTensors kv = call.kv(shape);
  std::vector<double> o(static_cast<std::size_t>(call.row_elements(call.o, shape)), kUnwritten);
  std::vector<double> lse(static_cast<std::size_t>(call.q_tokens * shape.q_heads), kUnwritten);
  for (std::size_t index = 0; index < static_cast<std::size_t>(shape.batch); ++index) {
    const PlacedSequence sequence(shape, call, inputs, index);
    for (std::int64_t row = 0; row < sequence.of.new_tokens; ++row) {
      const Range visible = shape.visible(sequence.of, row);
      for (std::int64_t head = 0; head < shape.q_heads; ++head) {
        const std::int64_t token = sequence.q_begin + row;
        const double sink = shape.sinks ? inputs.at("sinks")[static_cast<std::size_t>(head)] : kNothing;
        const double* const q = inputs.at("q").data() + token * call.q.token + head * call.q.head;
        double* const output = o.data() + token * call.o.token + head * call.o.head;
        std::fill(output, output + shape.head_dim, 0.0);
        const std::int64_t kv_head = head / shape.group();
        const double scale = call.scale * scale_of(shape, inputs, "k_scale", kv_head);
        lse[static_cast<std::size_t>(token * shape.q_heads + head)] =
            attend_row(sequence, kv, scale, inputs, kv_head, visible, q, sink, output);
        const double of_values = scale_of(shape, inputs, "v_scale", kv_head);
        for (std::int64_t d = 0; d < shape.head_dim; ++d) output[d] *= of_values;
      }
    }
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (shape.lse) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
