#include "kernels/decode_attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace moetune {
namespace {

// Where the KV of one head of one sequence lies.
class KvHead {
 public:
  KvHead(const DecodeShape& shape, const HostTensors& inputs, std::int64_t sequence, std::int64_t head)
      : shape_(shape), strides_(shape.strides()), sequence_(sequence), head_(head) {
    if (shape.paged()) page_table_ = inputs.at("page_table").data() + sequence * shape.max_pages();
  }

  // Where the rows of one token begin in k and v.
  const double* row(const std::vector<double>& tensor, std::int64_t token) const {
    std::int64_t block = sequence_, within = token;
    if (shape_.paged()) {
      block = static_cast<std::int64_t>(page_table_[token / shape_.page]);
      within = token % shape_.page;
    }
    return tensor.data() + block * strides_.block + head_ * strides_.head + within * strides_.token;
  }

  // What quantized keys or values are multiplied by.
  double scale(const HostTensors& inputs, const std::string& name) const {
    if (!shape_.narrow) return 1;
    return inputs.at(name)[shape_.head_scales ? static_cast<std::size_t>(head_) : 0];
  }

 private:
  const DecodeShape& shape_;
  KvStrides strides_;
  std::int64_t sequence_, head_;
  const double* page_table_ = nullptr;
};

// The tokens [begin, end) of one query.
struct Sight {
  Sight(const DecodeShape& shape, std::int64_t length, std::int64_t query)
      : end(std::max<std::int64_t>(0, length - (shape.q_len - 1) + query)),
        begin(shape.window == 0 ? 0 : std::max<std::int64_t>(0, end - shape.window)) {}

  std::int64_t end, begin;
};

// One row of o (added to zeros), and the logarithm of its denominator.
double attend(const KvHead& kv, const Sight& sight, const HostTensors& inputs, const double* q, double sink,
              std::int64_t head_dim, double* o) {
  const std::vector<double>&k = inputs.at("k"), &v = inputs.at("v");
  const double scale = kv.scale(inputs, "k_scale") / std::sqrt(static_cast<double>(head_dim));
  std::vector<double> scores;
  for (std::int64_t token = sight.begin; token < sight.end; ++token) {
    const double* key = kv.row(k, token);
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
  for (std::int64_t token = sight.begin; token < sight.end; ++token) {
    const double* value = kv.row(v, token);
    const double weight = value_scale * scores[static_cast<std::size_t>(token - sight.begin)] / denominator;
    for (std::int64_t i = 0; i < head_dim; ++i) o[i] += weight * value[i];
  }
  return highest + std::log(denominator);
}

}  // namespace

HostTensors decode_attention_on_cpu(const DecodeShape& shape, const HostTensors& inputs) {
  const std::vector<double>& q = inputs.at("q");
  std::vector<double> o(q.size(), 0.0), lse;
  for (std::int64_t row = 0; row < shape.query_rows(); ++row) {
    const std::int64_t head = row % shape.q_heads, query = row / shape.q_heads % shape.q_len;
    const std::int64_t sequence = row / shape.q_heads / shape.q_len;
    const auto length = static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]);
    const double sink = shape.sinks ? inputs.at("sinks")[static_cast<std::size_t>(head)]
                                    : -std::numeric_limits<double>::infinity();
    const KvHead kv(shape, inputs, sequence, head / shape.group());
    lse.push_back(attend(kv, Sight(shape, length, query), inputs, q.data() + row * shape.head_dim, sink,
                         shape.head_dim, o.data() + row * shape.head_dim));
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (shape.lse) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
