// The small operations of a model's step in float64.
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

std::int64_t field(const Problem& problem, const Call& call, std::string_view name) {
  const auto& fields = find_kernel(problem.kernel).call_schema().integers;
  const auto found = std::ranges::find(fields, name, &CallField::name);
  return call.integers.at(static_cast<std::size_t>(found - fields.begin()));
}

// The rows of a matrix whose rows may lie apart.
struct Rows {
  Rows(std::int64_t tokens, std::int64_t width, std::int64_t row)
      : stride(row), values(static_cast<std::size_t>((tokens - 1) * row + width), kUnwritten) {}

  double& at(std::int64_t token, std::int64_t column) {
    return values[static_cast<std::size_t>(token * stride + column)];
  }

  std::int64_t stride;
  std::vector<double> values;
};

// templates/common/quantize.cuh has both too.
constexpr double kLargestE4m3 = 448, kLeastMagnitude = 0x1p-100;

double e4m3_scale(double largest) { return largest < kLeastMagnitude ? 1 : largest / kLargestE4m3; }

// Divides a row's values by their scales, and returns these: one for so many values. They are not rounded.
std::vector<double> scale_row(std::vector<double>& values, std::int64_t group) {
  std::vector<double> scales;
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(group)) {
    const std::size_t end = std::min(begin + static_cast<std::size_t>(group), values.size());
    double largest = 0;
    for (std::size_t c = begin; c < end; ++c) largest = std::max(largest, std::abs(values[c]));
    scales.push_back(e4m3_scale(largest));
    for (std::size_t c = begin; c < end; ++c) values[c] /= scales.back();
  }
  return scales;
}

}  // namespace

HostTensors add_rmsnorm_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t tokens = problem["tokens"], hidden = problem["hidden"];
  const bool adds = problem.is("residual", "yes"), narrow = problem.is("out", "e4m3");
  const std::int64_t x_row = field(problem, call, "x_row"),
                     residual_row = field(problem, call, "residual_row");
  Rows out(tokens, hidden, field(problem, call, "out_row")),
      sums(tokens, hidden, field(problem, call, "residual_out_row"));
  std::vector<double> scales, values(static_cast<std::size_t>(hidden));
  for (std::int64_t token = 0; token < tokens; ++token) {
    double squares = 0;
    for (std::int64_t c = 0; c < hidden; ++c) {
      double& h = values[static_cast<std::size_t>(c)];
      h = inputs.at("x")[static_cast<std::size_t>(token * x_row + c)];
      if (adds) {
        const double other = inputs.at("residual")[static_cast<std::size_t>(token * residual_row + c)];
        const DType type = problem.is("dtype", "bf16") ? DType::bf16 : DType::f16;
        h = round_to(type, static_cast<float>(h) + static_cast<float>(other));
        sums.at(token, c) = h;
      }
      squares += h * h;
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(hidden) + call.reals[0]);
    for (std::int64_t c = 0; c < hidden; ++c)
      values[static_cast<std::size_t>(c)] *= factor * (inputs.at("weight")[static_cast<std::size_t>(c)] +
                                                       (problem.is("weight", "plus_one") ? 1 : 0));
    if (narrow)
      std::ranges::copy(scale_row(values, problem.is("scale", "token") ? hidden : 128),
                        std::back_inserter(scales));
    for (std::int64_t c = 0; c < hidden; ++c) out.at(token, c) = values[static_cast<std::size_t>(c)];
  }
  HostTensors outputs = {{"out", std::move(out.values)}};
  if (narrow) outputs["scales"] = std::move(scales);
  if (adds) outputs["residual_out"] = std::move(sums.values);
  return outputs;
}

}  // namespace moetune
