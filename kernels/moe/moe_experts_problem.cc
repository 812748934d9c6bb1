#include "kernels/moe/moe_experts_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace moetune {
namespace {

constexpr std::int64_t kUnit = 8;  // values of 16 bytes
constexpr std::int64_t kMostExpertStride = std::int64_t{1}
                                           << 38;  // elements; bytes of a tensor map's stride are 40 bits

[[noreturn]] void refuse_experts(const std::string& rule) { throw BadInput("moe_experts: " + rule); }

// An expert's matrix of so many rows.
void check_matrix(const char* name, std::int64_t row, std::int64_t expert, std::int64_t rows,
                  std::int64_t columns) {
  check_moe_row("moe_experts", (std::string(name) + "_row").c_str(), row, columns);
  if (expert < (rows - 1) * row + columns || expert > kMostExpertStride || expert % kUnit != 0)
    refuse_experts(std::string(name) + "_expert=" + std::to_string(expert) +
                   " must be a multiple of 8 that holds an expert's " + std::to_string(rows) + " rows");
}

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

MoeExpertsShape::MoeExpertsShape(const Problem& problem)
    : MoeShape(problem),
      intermediate(problem["intermediate"]),
      dtype(problem.is("dtype", "bf16") ? DType::bf16 : DType::f16) {}

MoeExpertsShape MoeExpertsShape::at(const Extents& extents) const {
  MoeExpertsShape other = *this;
  other.tokens = other.sizes.tokens = extents[0];
  return other;
}

const ProblemSchema& moe_experts_schema() {
  static const ProblemSchema schema = [] {
    ProblemSchema all = moe_schema();
    all.push_back(integer_dimension("intermediate", "values of a token within an expert, a multiple of 8",
                                    256, 8, 32768));
    all.push_back(named_dimension("dtype", "type of rows and weights", {"bf16", "fp16"}));
    return all;
  }();
  return schema;
}

void check_moe_experts(const Problem& problem) {
  check_moe("moe_experts", problem);
  if (problem["intermediate"] % kUnit != 0)
    refuse_experts("intermediate=" + problem.dims.at("intermediate").text() + " is no multiple of 8");
}

void check_moe_experts_call(const MoeExpertsShape& shape, const Call& call) {
  const auto& of = call.integers;
  check_moe_row("moe_experts", "x_row", of[kMoeRow], shape.hidden);
  check_moe_row("moe_experts", "out_row", of[kExpertsOutRow], shape.hidden);
  check_moe_places("moe_experts", of[kMoePlaces]);
  check_matrix("up", of[kExpertsUpRow], of[kExpertsUpExpert], 2 * shape.intermediate, shape.hidden);
  check_matrix("down", of[kExpertsDownRow], of[kExpertsDownExpert], shape.hidden, shape.intermediate);
}

HostTensors experts_on_cpu(const MoeExpertsShape& shape, const Call& call, const HostTensors& inputs) {
  const std::vector<double>&x = inputs.at("x"), &sorted = inputs.at("sorted"),
        &offsets = inputs.at("offsets"), &inverse = inputs.at("inverse"), &weights = inputs.at("weights"),
        &up = inputs.at("w_gate_up"), &down = inputs.at("w_down");
  const auto& of = call.integers;
  std::vector<double> between(static_cast<std::size_t>(of[kMoePlaces] * shape.intermediate));
  std::vector<std::int64_t> expert_of(static_cast<std::size_t>(of[kMoePlaces]));
  for (std::int64_t expert = 0; expert < shape.experts(); ++expert) {
    const auto e = static_cast<std::size_t>(expert);
    const std::int64_t end = std::min(static_cast<std::int64_t>(offsets[e + 1]), of[kMoePlaces]);
    for (auto place = static_cast<std::int64_t>(offsets[e]); place < end; ++place) {
      const auto slot = static_cast<std::int64_t>(sorted[static_cast<std::size_t>(place)]);
      if (slot < 0 || slot >= shape.slots()) continue;
      expert_of[static_cast<std::size_t>(place)] = expert;
      const double* const row = x.data() + slot / shape.top_k * of[kMoeRow];
      for (std::int64_t i = 0; i < shape.intermediate; ++i) {
        const double* const gates = up.data() + expert * of[kExpertsUpExpert] + i * of[kExpertsUpRow];
        const double gate = dot(row, gates, shape.hidden);
        const double value = dot(row, gates + shape.intermediate * of[kExpertsUpRow], shape.hidden);
        between[static_cast<std::size_t>(place * shape.intermediate + i)] =
            gate / (1 + std::exp(-gate)) * value;
      }
    }
  }
  std::vector<double> out(static_cast<std::size_t>((shape.tokens - 1) * of[kExpertsOutRow] + shape.hidden),
                          std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    for (std::int64_t column = 0; column < shape.hidden; ++column) {
      double sum = 0;
      for (std::int64_t slot = token * shape.top_k; slot < (token + 1) * shape.top_k; ++slot) {
        const auto place = static_cast<std::int64_t>(inverse[static_cast<std::size_t>(slot)]);
        if (place < 0) continue;
        const double* const row = down.data() +
                                  expert_of[static_cast<std::size_t>(place)] * of[kExpertsDownExpert] +
                                  column * of[kExpertsDownRow];
        sum += weights[static_cast<std::size_t>(slot)] *
               dot(between.data() + place * shape.intermediate, row, shape.intermediate);
      }
      out[static_cast<std::size_t>(token * of[kExpertsOutRow] + column)] = sum;
    }
  }
  return {{"out", std::move(out)}};
}

}  // namespace moetune
