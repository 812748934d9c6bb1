// decode_attention on the host: a plain double loop over what the launch's parameters point to.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/dtype.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using moetune::DType;

// Places of the parameters, in the template's order.
enum {
  kQ,
  kK,
  kV,
  kKScale,
  kVScale,
  kPageTable,
  kLengths,
  kSinks,
  kO,
  kLse,
  kPartialO,
  kPartialLse,
  kCounters,
  kQStrides,
  kOStrides = kQStrides + 3,
  kKStrides = kOStrides + 3,
  kVStrides = kKStrides + 3,
  kTableStride = kVStrides + 3,
  kCapacity,
  kScaleLog2,
  kFlags
};

constexpr std::uint64_t kKvSettled = 2;

struct Attention {
  const Parameters& p;
  std::int64_t head_dim, group, page, q_len;

  const void* at(int place) const { return reinterpret_cast<const void*>(p[static_cast<std::size_t>(place)]); }
  std::int64_t integer(int place) const { return static_cast<std::int64_t>(p[static_cast<std::size_t>(place)]); }
  float scale_log2() const {
    float scale = 0;
    std::memcpy(&scale, &p[kScaleLog2], sizeof scale);
    return scale;
  }

  // Elements from the tensor's start to a token of a sequence and head.
  std::int64_t token_offset(int strides, std::int64_t sequence, std::int64_t head, std::int64_t token) const {
    std::int64_t block = sequence;
    if (page > 0) {
      block = moetune::load_integer(DType::i32, at(kPageTable), sequence * integer(kTableStride) + token / page);
      token %= page;
    }
    return block * integer(strides) + head * integer(strides + 1) + token * integer(strides + 2);
  }

  double load(int tensor, std::int64_t element) const {
    return moetune::load_element(DType::bf16, at(tensor), element);
  }

  void row(std::int64_t sequence, std::int64_t query, std::int64_t head) const {
    const std::int64_t length = std::min<std::int64_t>(moetune::load_integer(DType::i32, at(kLengths), sequence),
                                                       static_cast<std::int32_t>(p[kCapacity]));
    const auto offset = [&](int strides) {
      return sequence * integer(strides) + query * integer(strides + 1) + head * integer(strides + 2);
    };
    const std::int64_t q = offset(kQStrides), visible = length - q_len + query + 1;
    std::vector<double> sum(static_cast<std::size_t>(head_dim));
    double denominator = 0, largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t token = 0; token < visible; ++token) {
      const std::int64_t k = token_offset(kKStrides, sequence, head / group, token);
      const std::int64_t v = token_offset(kVStrides, sequence, head / group, token);
      double score = 0;
      for (std::int64_t d = 0; d < head_dim; ++d) score += load(kQ, q + d) * load(kK, k + d);
      score *= scale_log2();
      const double before = std::exp2(largest - std::max(largest, score));
      largest = std::max(largest, score);
      const double weight = std::exp2(score - largest);
      denominator = denominator * before + weight;
      for (std::int64_t d = 0; d < head_dim; ++d) {
        double& element = sum[static_cast<std::size_t>(d)];
        element = element * before + weight * load(kV, v + d);
      }
    }
    const std::int64_t o = offset(kOStrides);
    for (std::int64_t d = 0; d < head_dim; ++d) {
      const double value = denominator > 0 ? sum[static_cast<std::size_t>(d)] / denominator : 0;
      moetune::store_element(DType::bf16, reinterpret_cast<void*>(p[kO]), o + d, moetune::round_to(DType::bf16, value));
    }
  }
};

}  // namespace

void attend(const Kernel& kernel, const Parameters& parameters, const Grid& grid) {
  const auto fact = [&](const char* name) {
    const auto found = kernel.facts.find(name);
    return found == kernel.facts.end() ? 0 : found->second;
  };
  if (parameters.size() > kFlags && (parameters[kFlags] & kKvSettled) != 0) ++machine.settled_launches;
  const Attention attention{parameters, fact("head_dim"), fact("group"), fact("page"),
                            std::max(fact("q_len"), std::int64_t{1})};
  if (attention.group == 0) return;  // an image that does not say what it was compiled for
  for (std::int64_t sequence = 0; sequence < grid[2]; ++sequence) {
    for (std::int64_t query = 0; query < attention.q_len; ++query) {
      for (std::int64_t head = 0; head < grid[0] * attention.group; ++head) attention.row(sequence, query, head);
    }
  }
}

}  // namespace fake_cuda
