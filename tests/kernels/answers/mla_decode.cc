// Attention over a latent in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {

HostTensors mla_decode_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  constexpr std::int64_t kLatent = 512, kWidth = 576;
  const std::int64_t heads = problem["heads"], queries = problem["queries"], page = problem["page"];
  const auto& fields = find_kernel(problem.kernel).call_schema().integers;
  const auto field = [&](std::string_view name) {
    const auto found = std::ranges::find(fields, name, &CallField::name);
    return call.integers.at(static_cast<std::size_t>(found - fields.begin()));
  };
  const std::int64_t rows = problem["batch"] * queries * heads, kv_page = field("kv_page"),
                     kv_token = field("kv_token");
  const double* const kv = inputs.at("kv").data();
  const auto offset = [&](std::int64_t row, const std::string& of) {
    return row / (queries * heads) * field(of + "_sequence") + row / heads % queries * field(of + "_token") +
           row % heads * field(of + "_head");
  };
  std::vector<double> o(static_cast<std::size_t>(offset(rows - 1, "o") + kLatent), kUnwritten), lse;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t sequence = row / (queries * heads);
    const auto length = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]), 0, problem["context"]);
    const double* const q = inputs.at("q").data() + offset(row, "q");
    const double* const table = inputs.at("page_table").data() + sequence * field("page_row");
    double* const to = o.data() + offset(row, "o");
    const auto token_row = [&](std::size_t token) {
      const auto t = static_cast<std::int64_t>(token);
      return kv + static_cast<std::int64_t>(table[t / page]) * kv_page + t % page * kv_token;
    };
    const std::int64_t end = length - (queries - 1) + row / heads % queries;
    std::vector<double> logits(static_cast<std::size_t>(std::max<std::int64_t>(end, 0)));
    double highest = -std::numeric_limits<double>::infinity(), denominator = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double* const key = token_row(token);
      double dot = 0;
      for (std::int64_t d = 0; d < kWidth; ++d) dot += q[d] * key[d];
      highest = std::max(highest, logits[token] = dot * call.reals[0]);
    }
    for (double& logit : logits) denominator += logit = std::exp(logit - highest);
    std::fill_n(to, kLatent, 0.0);
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double* const value = token_row(token);
      for (std::int64_t d = 0; d < kLatent; ++d) to[d] += logits[token] / denominator * value[d];
    }
    lse.push_back(highest + std::log(denominator));
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (problem.is("lse", "yes")) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
