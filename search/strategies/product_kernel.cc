#include "search/strategies/product_kernel.h"

#include <cmath>

namespace moetune {
namespace {

struct Prior {
  double mean;
  double deviation;
};
constexpr Prior kRelevance{-1.0, 1.5};  // a logit
constexpr Prior kLength{0.1, 0.8};      // a logarithm: about as long as the domain
constexpr Prior kShare{-2.0, 0.7};      // a logit
constexpr Prior kNoise{-5.0, 1.5};      // a logarithm

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Correlation {
  double value;
  double by_log_length;
};

Correlation matern(double distance, double length) {
  const double r = std::sqrt(5.0) * distance / length;
  const double decay = std::exp(-r);
  return {(1 + r + r * r / 3) * decay, r * r * (1 + r) / 3 * decay};
}

}  // namespace

ProductKernel::ProductKernel(std::vector<Axis> axes) : axes_(std::move(axes)), tables_(axes_.size()) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    parameters.push_back(kRelevance.mean + axes_[i].prior_relevance);
    parameters.push_back(kLength.mean);
  }
  parameters.push_back(kShare.mean);
  parameters.push_back(kNoise.mean);
}

double ProductKernel::noise() const { return std::exp(parameters[noise_index()]); }

double ProductKernel::penalty(std::vector<double>& gradient) const {
  double sum = 0;
  const auto add = [&](std::size_t index, const Prior& prior) {
    const double z = (parameters[index] - prior.mean) / prior.deviation;
    sum += z * z / 2;
    gradient[index] += z / prior.deviation;
  };
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    add(relevance_index(i), {kRelevance.mean + axes_[i].prior_relevance, kRelevance.deviation});
    add(length_index(i), kLength);
  }
  add(share_index(), kShare);
  add(noise_index(), kNoise);
  return sum;
}

void ProductKernel::tabulate(bool with_slopes) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    Table& table = tables_[i];
    table.size = axes_[i].size();
    table.value.resize(table.size * table.size);
    if (with_slopes) {
      table.by_relevance.resize(table.value.size());
      table.by_length.resize(table.value.size());
      table.by_share.resize(table.value.size());
    }
    fill(i, with_slopes);
  }
}

// Tables are symmetric: half of the exponentials are enough.
void ProductKernel::fill(std::size_t index, bool with_slopes) {
  const Axis& axis = axes_[index];
  Table& table = tables_[index];
  const double share = logistic(parameters[share_index()]);
  const double relevance = logistic(parameters[relevance_index(index)]);
  const double length = std::exp(parameters[length_index(index)]);
  for (std::size_t a = 0; a < table.size; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const std::size_t at = a * table.size + b, mirrored = b * table.size + a;
      const double rough = axis.rough[at];
      Correlation smooth{rough, 0};
      if (axis.ordered) smooth = matern(std::abs(axis.at[a] - axis.at[b]), length);
      const double correlation = (1 - share) * smooth.value + share * rough;
      const double value = 1 - relevance + relevance * correlation;
      const auto store = [&](std::vector<float>& into, double entry) {
        into[at] = into[mirrored] = static_cast<float>(entry);
      };
      store(table.value, value);
      if (!with_slopes) continue;
      store(table.by_relevance, relevance * (1 - relevance) * (correlation - 1) / value);
      store(table.by_length, relevance * (1 - share) * smooth.by_log_length / value);
      store(table.by_share, relevance * share * (1 - share) * (rough - smooth.value) / value);
    }
  }
}

}  // namespace moetune
