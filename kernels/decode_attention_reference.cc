#include "kernels/decode_attention_reference.h"

#include <algorithm>
#include <cmath>
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

  const double* row(const std::vector<double>& tensor, std::int64_t token) const {
    std::int64_t block = sequence_, within = token;
    if (shape_.paged()) {
      block = static_cast<std::int64_t>(page_table_[token / shape_.page]);
      within = token % shape_.page;
    }
    return tensor.data() + block * strides_.block + head_ * strides_.head + within * strides_.token;
  }

 private:
  const DecodeShape& shape_;
  KvStrides strides_;
  std::int64_t sequence_, head_;
  const double* page_table_ = nullptr;
};

}  // namespace

HostTensors decode_attention_on_cpu(const DecodeShape& shape, const HostTensors& inputs) {
  const std::vector<double>&q = inputs.at("q"), &k = inputs.at("k"), &v = inputs.at("v");
  const double scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  std::vector<double> o(q.size(), 0.0);
  for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
    const auto length = static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]);
    for (std::int64_t head = 0; head < shape.q_heads && length > 0; ++head) {
      const KvHead kv(shape, inputs, sequence, head / shape.group());
      const std::int64_t row = (sequence * shape.q_heads + head) * shape.head_dim;
      std::vector<double> scores;
      for (std::int64_t token = 0; token < length; ++token) {
        const double* key = kv.row(k, token);
        double dot = 0;
        for (std::int64_t i = 0; i < shape.head_dim; ++i)
          dot += q[static_cast<std::size_t>(row + i)] * key[i];
        scores.push_back(dot * scale);
      }
      const double highest = *std::max_element(scores.begin(), scores.end());
      double denominator = 0;
      for (double& score : scores) denominator += score = std::exp(score - highest);
      for (std::int64_t token = 0; token < length; ++token) {
        const double* value = kv.row(v, token);
        const double weight = scores[static_cast<std::size_t>(token)] / denominator;
        for (std::int64_t i = 0; i < shape.head_dim; ++i)
          o[static_cast<std::size_t>(row + i)] += weight * value[i];
      }
    }
  }
  return {{"o", std::move(o)}};
}

}  // namespace moetune
