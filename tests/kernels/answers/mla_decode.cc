// Attention over a latent in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {

namespace {

// Places in the pool of what a row sees: page * tokens of a page + place in it.
std::vector<std::int64_t> places_seen(const Problem& problem, const HostTensors& inputs, std::int64_t row,
                                      std::int64_t page_row) {
  const std::int64_t heads = problem["heads"], queries = problem["queries"], page = problem["page"];
  const std::int64_t context = problem["context"], sequence = row / (queries * heads);
  std::vector<std::int64_t> places;
  if (problem.is("tokens", "chosen")) {
    for (std::int64_t i = 0; i < context; ++i)
      if (const double place = inputs.at("indices")[static_cast<std::size_t>(row / heads * context + i)]; place >= 0)
        places.push_back(static_cast<std::int64_t>(place));
    return places;
  }
  const auto length = std::clamp<std::int64_t>(
      static_cast<std::int64_t>(inputs.at("lengths")[static_cast<std::size_t>(sequence)]), 0, context);
  const double* const table = inputs.at("page_table").data() + sequence * page_row;
  for (std::int64_t token = 0; token < length - (queries - 1) + row / heads % queries; ++token)
    places.push_back(static_cast<std::int64_t>(table[token / page]) * page + token % page);
  return places;
}

}  // namespace

HostTensors mla_decode_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  constexpr std::int64_t kLatent = 512, kWidth = 576;
  const std::int64_t heads = problem["heads"], queries = problem["queries"], page = problem["page"];
  const bool groups = problem.is("kv_scale", "group");
  const double factor = problem.is("kv_dtype", "e4m3") && !groups ? inputs.at("kv_scale")[0] : 1;
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
    const std::vector<std::int64_t> places = places_seen(problem, inputs, row, field("page_row"));
    const double* const q = inputs.at("q").data() + offset(row, "q");
    double* const to = o.data() + offset(row, "o");
    const auto value = [&](std::int64_t place, std::int64_t column) {
      if (groups && column >= kLatent)
        return inputs.at("rope")[static_cast<std::size_t>(place / page * field("rope_page") +
                                                          place % page * field("rope_token") + column - kLatent)];
      const double number = kv[place / page * kv_page + place % page * kv_token + column];
      if (!groups) return number * factor;
      return number * inputs.at("group_scales")[static_cast<std::size_t>(
                          place / page * field("scales_page") + place % page * field("scales_token") + column / 128)];
    };
    std::vector<double> logits(places.size());
    double highest = -std::numeric_limits<double>::infinity(), denominator = 0;
    for (std::size_t token = 0; token < logits.size(); ++token) {
      double dot = 0;
      for (std::int64_t d = 0; d < kWidth; ++d) dot += q[d] * value(places[token], d);
      highest = std::max(highest, logits[token] = dot * call.reals[0]);
    }
    for (double& logit : logits) denominator += logit = std::exp(logit - highest);
    std::fill_n(to, kLatent, 0.0);
    for (std::size_t token = 0; token < logits.size(); ++token) {
      for (std::int64_t d = 0; d < kLatent; ++d) to[d] += logits[token] / denominator * value(places[token], d);
    }
    lse.push_back(highest + std::log(denominator));
  }
  HostTensors outputs = {{"o", std::move(o)}};
  if (problem.is("lse", "yes")) outputs["lse"] = std::move(lse);
  return outputs;
}

}  // namespace moetune
