#include "kernels/decode_attention/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace moetune {
namespace {

// Locates the KV of one head of one sequence.
class KvHead {
 public:
  KvHead(const DecodeShape& shape, const DecodeCall& call, const HostTensors& inputs, std::int64_t sequence,
         std::int64_t head)
      : shape_(shape), sequence_(sequence), head_(head) {
    if (shape.paged()) page_table_ = inputs.at("page_table").data() + sequence * call.page_table_stride;
  }

  // The first element of a token's row among keys or values.
  const double* row(const double* tensor, const KvStrides& strides, std::int64_t token) const {
    std::int64_t block = sequence_, within = token;
    if (shape_.paged()) {
      block = static_cast<std::int64_t>(page_table_[token / shape_.page]);
      within = token % shape_.page;
    }
    return tensor + block * strides.block + head_ * strides.head + within * strides.token;
  }

  // The factor of quantized keys or values.
  double scale(const HostTensors& inputs, const std::string& name) const {
    if (!shape_.narrow) return 1;
    return inputs.at(name)[shape_.head_scales ? static_cast<std::size_t>(head_) : 0];
  }

 private:
  const DecodeShape& shape_;
  std::int64_t sequence_, head_;
  const double* page_table_ = nullptr;
};

// The tokens [begin, end) that one query sees.
struct VisibleRange {
  VisibleRange(const DecodeShape& shape, std::int64_t length, std::int64_t query)
      : end(std::max<std::int64_t>(0, length - (shape.q_len - 1) + query)),
        begin(shape.window == 0 ? 0 : std::max<std::int64_t>(0, end - shape.window)) {}

  std::int64_t end, begin;
};

// One row of o (added to zeros), and the logarithm of its denominator.
double attend(const KvHead& kv, const DecodeCall& call, const VisibleRange& visible,
              const HostTensors& inputs, const double* q, double sink, std::int64_t head_dim, double* o) {
  const double* const k = inputs.at("k").data();
  const double* const v = call.v_offset > 0 ? k + call.v_offset : inputs.at("v").data();
  const double scale = kv.scale(inputs, "k_scale") * call.scale;
  std::vector<double> scores;
  for (std::int64_t token = visible.begin; token < visible.end; ++token) {
    const double* key = kv.row(k, call.k, token);
    double dot = 0;
    for (std::int64_t i = 0; i < head_dim; ++i) dot += q[i] * key[i];
    scores.push_back(dot * scale);
  }
  double highest = sink;
  for (double score : scores) highest = std::max(highest, score);
  if (std::isinf(highest)) return highest;  // neither a token nor a sink
  const double value_scale = kv.scale(inputs, "v_scale");
  double denominator = std::exp(sink - highest);
  for (double& score : scores) denominator += score = std::exp(score - highest);
  for (std::int64_t token = visible.begin; token < visible.end; ++token) {
    const double* value = kv.row(v, call.v, token);
    const double weight = value_scale * scores[static_cast<std::size_t>(token - visible.begin)] / denominator;
    for (std::int64_t i = 0; i < head_dim; ++i) o[i] += weight * value[i];
  }
  return highest + std::log(denominator);
}

}  // namespace

HostTensors decode_attention_on_cpu(const DecodeShape& shape, const DecodeCall& call,
                                    const HostTensors& inputs) {
  const double* const q = inputs.at("q").data();
  std::vector<double> o(static_cast<std::size_t>(call.row_elements(call.o, shape)),
                        std::numeric_limits<double>::quiet_NaN());
  std::vector<double> lse;
  for (std::int64_t row = 0; row < shape.query_rows(); ++row) {
    const std::int64_t head = row % shape.q_heads, query = row / shape.q_heads % shape.q_len;
    const std::int64_t sequence = row / shape.q_heads / shape.q_len;
    const auto stored = static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]);
    const std::int64_t length = std::clamp<std::int64_t>(stored, 0, call.capacity);
    const double sink = shape.sinks ? inputs.at("sinks")[static_cast<std::size_t>(head)]
                                    : -std::numeric_limits<double>::infinity();
    double* const output = o.data() + row_offset(call.o, shape, row);
    std::fill(output, output + shape.head_dim, 0.0);
    const KvHead kv(shape, call, inputs, sequence, head / shape.group());
    lse.push_back(attend(kv, call, VisibleRange(shape, length, query), inputs,
                         q + row_offset(call.q, shape, row), sink, shape.head_dim, output));
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (shape.lse) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
