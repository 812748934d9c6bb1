#include "tests/kernels/answers/answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/moe/moe_dispatch_problem.h"
#include "kernels/moe/moe_experts_problem.h"
#include "kernels/registry.h"
#include "tests/kernels/answers/mxfp4.h"

namespace moetune {
namespace {

// templates/decode_kernel/elements.cuh has the sizes too.
HostTensors decode_kernel_on_cpu(const Problem& problem, const Call&, const HostTensors& inputs) {
  constexpr float kA = 0.7071f, kB = 0.25f;
  constexpr std::size_t kChunk = 1024, kEighth = kChunk / 8, kVersions = 8;
  const std::vector<double>& x = inputs.at("x");
  const bool all = problem.is("write", "all"), none = problem.is("write", "none"),
             eighth = problem.is("write", "eighth");
  const std::size_t chunks = (x.size() + kChunk - 1) / kChunk;
  const std::size_t sums = none ? chunks : x.size() / kChunk * kEighth + std::min(x.size() % kChunk, kEighth);
  std::vector<double> out(all ? x.size() : none || eighth ? sums : kVersions * x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double y = double{kA} * x[i] + double{kB};
    const std::size_t chunk = i / kChunk, begin = chunk * kChunk, within = i - begin;
    if (all) {
      out[i] = y;
    } else if (none || eighth) {
      out[none ? chunk : chunk * kEighth + within % kEighth] += y;
    } else {
      const std::size_t size = std::min(kChunk, x.size() - begin);
      for (std::size_t k = 0; k < kVersions; ++k)
        out[kVersions * begin + k * size + within] = y + static_cast<double>(k) * double{kB};
    }
  }
  return {{none ? "sums" : "y", out}};
}

// templates/tensor_ceiling/tiles.cuh has the sizes too.
HostTensors tensor_ceiling_on_cpu(const Problem& problem, const Call&, const HostTensors& inputs) {
  constexpr std::int64_t kRows = 64, kPeriod = 128, kSets = 2, kSumColumns = 64, kTileSums = 256;
  const auto operand = [&](const char* name, std::int64_t row, std::int64_t k) {
    return std::nearbyint(inputs.at(name)[static_cast<std::size_t>(row * kPeriod + k)]);
  };
  std::vector<double> of_sets;  // the sums of one tile of each set
  for (std::int64_t set = 0; set < kSets; ++set) {
    for (std::int64_t i = 0; i < kTileSums; ++i) {
      double sum = 0;
      for (std::int64_t column = i / kRows * kSumColumns; column < (i / kRows + 1) * kSumColumns; ++column) {
        for (std::int64_t k = 0; k < kPeriod; ++k)
          sum += operand("a", set * kRows + i % kRows, k) * operand("b", column, k);
      }
      of_sets.push_back(sum * static_cast<double>(problem["depth"] / kPeriod));
    }
  }
  std::vector<double> sums;
  for (std::int64_t tile = 0; tile < problem["tiles"]; ++tile) {
    const auto first = of_sets.begin() + tile % kSets * kTileSums;
    sums.insert(sums.end(), first, first + kTileSums);
  }
  return {{"sums", sums}};
}

// Scales and products are rounded to f32, as on the GPU, so that values that lie half-way between two e4m3 become the
// same.
HostTensors dispatch_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  constexpr float kLargestE4m3 = 448, kLeast = 0x1p-100f;  // templates/moe_dispatch/shape.cuh has both too
  const MoeDispatchShape shape(problem);
  const std::vector<double>&x = inputs.at("x"), &sorted = inputs.at("sorted");
  const std::int64_t places = call.integers[kMoePlaces], x_row = call.integers[kMoeRow];
  std::vector<double> rows(static_cast<std::size_t>(places * shape.hidden), shape.zero_padding ? 0 : kUnwritten);
  std::vector<double> scales(static_cast<std::size_t>(shape.scale_elements(places)),
                             shape.zero_padding ? 1 : kUnwritten);
  for (std::int64_t place = 0; place < places; ++place) {
    const auto slot = static_cast<std::int64_t>(sorted[static_cast<std::size_t>(place)]);
    if (slot < 0 || slot >= shape.slots()) continue;
    const double* const from = x.data() + slot / shape.top_k * x_row;
    double* const to = rows.data() + place * shape.hidden;
    if (!shape.narrow()) std::copy_n(from, shape.hidden, to);
    for (std::int64_t group = 0; shape.narrow() && group < shape.groups(); ++group) {
      const std::int64_t first = group * shape.group(), end = std::min(first + shape.group(), shape.hidden);
      float largest = 0;
      for (std::int64_t c = first; c < end; ++c) largest = std::max(largest, std::abs(static_cast<float>(from[c])));
      const float scale = largest < kLeast ? 1 : largest / kLargestE4m3, inverse = 1 / scale;
      for (std::int64_t c = first; c < end; ++c) to[c] = round_to(DType::e4m3, static_cast<float>(from[c]) * inverse);
      scales[static_cast<std::size_t>(shape.scale_index(place, group, places))] = scale;
    }
  }
  HostTensors outputs = {{"rows", std::move(rows)}};
  if (shape.narrow()) outputs["scales"] = std::move(scales);
  return outputs;
}

HostTensors combine_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const MoeShape shape(problem);
  const std::vector<double>&rows = inputs.at("rows"), &inverse = inputs.at("inverse"), &weights = inputs.at("weights");
  const std::int64_t row = call.integers[kMoeRow];
  std::vector<double> out(static_cast<std::size_t>((shape.tokens - 1) * row + shape.hidden), kUnwritten);
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    for (std::int64_t column = 0; column < shape.hidden; ++column) {
      double sum = 0;
      for (std::int64_t slot = token * shape.top_k; slot < (token + 1) * shape.top_k; ++slot) {
        const auto at = static_cast<std::size_t>(slot);
        const auto place = static_cast<std::int64_t>(inverse[at]);
        if (place >= 0) sum += weights[at] * rows[static_cast<std::size_t>(place * shape.hidden + column)];
      }
      out[static_cast<std::size_t>(token * row + column)] = sum;
    }
  }
  return {{"out", std::move(out)}};
}

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Matrices of so many rows; `row` elements from one to the next, `matrix` from one matrix to the next.
struct Matrices {
  std::int64_t rows, columns, row, matrix;
};

// Values of e4m3 times their scales, one for 128 values of so many rows.
std::vector<double> scaled(const HostTensors& inputs, const char* values, const char* scales, const Matrices& all,
                           std::int64_t rows_of_scale) {
  std::vector<double> made = inputs.at(values);
  if (!inputs.contains(scales)) return made;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::int64_t matrix = static_cast<std::int64_t>(i) / all.matrix,
                       within = static_cast<std::int64_t>(i) % all.matrix, row = within / all.row, k = within % all.row;
    if (row >= all.rows || k >= all.columns) continue;
    const std::int64_t of_row = (matrix * all.rows + row) / rows_of_scale;
    made[i] *= inputs.at(
        scales)[static_cast<std::size_t>(of_row * (all.columns / kExpertsScaleGroup) + k / kExpertsScaleGroup)];
  }
  return made;
}

// Weights of a product, each times its scale, and biases.
class ExpertWeights {
 public:
  struct Names {
    const char *values, *scales, *biases;
  };
  struct Sizes {
    std::int64_t matrices, width, depth, row, expert;  // the last two: elements from one to the next
  };

  ExpertWeights(const MoeExpertsShape& shape, const HostTensors& inputs, const Names& names, const Sizes& sizes)
      : of_(sizes), in_turn_(shape.biased && !shape.packed) {
    if (shape.biased) biases_ = inputs.at(names.biases);
    if (shape.n_major) {
      turn(shape.experts(), inputs.at(names.values));
      return;
    }
    if (!shape.packed) {
      values_ = scaled(inputs, names.values, names.scales, {of_.matrices * of_.width, of_.depth, of_.row, of_.expert},
                       kExpertsScaleGroup);
      return;
    }
    of_.row = of_.depth;
    of_.expert = of_.matrices * of_.width * of_.depth;
    unpack(shape.experts(), inputs.at(names.values), inputs.at(names.scales));
  }

  // A row's product with a column, plus its bias.
  double times(const double* row, std::int64_t expert, std::int64_t matrix, std::int64_t column) const {
    const std::int64_t index = in_turn_ ? of_.matrices * column + matrix : matrix * of_.width + column;
    const double bias =
        biases_.empty() ? 0 : biases_[static_cast<std::size_t>((expert * of_.width + column) * of_.matrices + matrix)];
    return dot(row, values_.data() + expert * of_.expert + index * of_.row, of_.depth) + bias;
  }

 private:
  // Of [experts, K, N] to [experts, N, K].
  void turn(std::int64_t experts, const std::vector<double>& values) {
    const std::int64_t columns = of_.matrices * of_.width;
    for (std::int64_t i = 0; i < experts * columns * of_.depth; ++i) {
      const std::int64_t expert = i / (columns * of_.depth), column = i / of_.depth % columns, k = i % of_.depth;
      values_.push_back(values[static_cast<std::size_t>(expert * of_.expert + k * of_.row + column)]);
    }
    of_.row = of_.depth;
    of_.expert = columns * of_.depth;
  }

  void unpack(std::int64_t experts, const std::vector<double>& bytes, const std::vector<double>& scales) {
    values_.reserve(static_cast<std::size_t>(experts * of_.expert));
    for (std::int64_t i = 0; i < experts * of_.expert; ++i) {
      const std::int64_t column = i / of_.depth;  // of all
      const PackedPlace place = packed_place(of_.matrices, of_.width, of_.depth, column / (of_.matrices * of_.width),
                                             column / of_.width % of_.matrices, column % of_.width, i % of_.depth);
      values_.push_back(packed_value(
          place, [&](std::int64_t byte) { return bytes[static_cast<std::size_t>(byte)]; },
          static_cast<std::uint8_t>(scales[static_cast<std::size_t>(place.scale)])));
    }
  }

  Sizes of_;
  bool in_turn_;
  std::vector<double> values_, biases_;
};

double activated(const MoeExpertsShape& shape, double gate, double up) {
  if (!shape.biased) return gate / (1 + std::exp(-gate)) * up;
  const double least = std::min(gate, 7.0);
  return least / (1 + std::exp(-1.702 * least)) * (std::clamp(up, -7.0, 7.0) + 1);
}

// The products of every place that has a row; one of padding has zeros, if anybody may read what becomes of it.
class ExpertsOnCpu {
 public:
  ExpertsOnCpu(const Problem& problem, const Call& call, const HostTensors& inputs)
      : shape_(problem),
        of_(call.integers.begin(), call.integers.end()),
        inputs_(inputs),
        places_(of_[kMoePlaces]),
        x_(scaled(inputs, "x", "x_scale", x_sizes(), 1)) {
    if (!shape_.x_places) x_.resize(x_.size() + static_cast<std::size_t>(shape_.hidden));  // a row of zeros
    find_experts();
  }

  HostTensors outputs() const {
    std::vector<double> rows = shape_.has_up() ? up() : x_;
    if (shape_.has_down()) rows = down(rows);
    if (!shape_.out_places) return {{"out", combined(rows)}};
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
      if (expert_of(i / shape_.out_width()) < 0) rows[static_cast<std::size_t>(i)] = kUnwritten;
    }
    return {{"out", rows}};
  }

 private:
  Matrices x_sizes() const {
    const std::int64_t rows = shape_.x_rows(places_);
    return {rows, shape_.x_width(), of_[kMoeRow], rows * of_[kMoeRow]};
  }

  void find_experts() {
    const std::vector<double>& offsets = inputs_.at("offsets");
    experts_.assign(static_cast<std::size_t>(places_), -1);
    for (std::int64_t expert = 0; expert < shape_.experts(); ++expert) {
      const auto e = static_cast<std::size_t>(expert);
      const std::int64_t end = std::min(static_cast<std::int64_t>(offsets[e + 1]), places_);
      for (auto place = static_cast<std::int64_t>(offsets[e]); place < end; ++place) {
        if (shape_.x_places || shape_.out_places || token_of(place) < shape_.tokens)
          experts_[static_cast<std::size_t>(place)] = expert;
      }
    }
  }

  // -1 if the place has no row.
  std::int64_t expert_of(std::int64_t place) const { return experts_[static_cast<std::size_t>(place)]; }

  // As many as there are for one of padding.
  std::int64_t token_of(std::int64_t place) const {
    const auto slot = static_cast<std::int64_t>(inputs_.at("sorted")[static_cast<std::size_t>(place)]);
    return slot < 0 || slot >= shape_.slots() ? shape_.tokens : slot / shape_.top_k;
  }

  const double* x_of(std::int64_t place) const {
    if (shape_.x_places) return x_.data() + place * of_[kMoeRow];
    const std::int64_t token = token_of(place);
    return token < shape_.tokens ? x_.data() + token * of_[kMoeRow] : &*x_.end() - shape_.hidden;
  }

  std::vector<double> up() const {
    const ExpertWeights weights(shape_, inputs_, {"w_gate_up", "gate_up_scale", "gate_up_bias"},
                                {2, shape_.intermediate, shape_.hidden, of_[kExpertsUpRow], of_[kExpertsUpExpert]});
    std::vector<double> made(static_cast<std::size_t>(places_ * shape_.intermediate));
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::int64_t expert = expert_of(place);
      if (expert < 0) continue;
      const double* const row = x_of(place);
      for (std::int64_t i = 0; i < shape_.intermediate; ++i) {
        made[static_cast<std::size_t>(place * shape_.intermediate + i)] =
            activated(shape_, weights.times(row, expert, 0, i), weights.times(row, expert, 1, i));
      }
    }
    return made;
  }

  std::vector<double> down(const std::vector<double>& rows) const {
    const ExpertWeights weights(shape_, inputs_, {"w_down", "down_scale", "down_bias"},
                                {1, shape_.hidden, shape_.intermediate, of_[kExpertsDownRow], of_[kExpertsDownExpert]});
    std::vector<double> made(static_cast<std::size_t>(places_ * shape_.hidden));
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::int64_t expert = expert_of(place);
      if (expert < 0) continue;
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        made[static_cast<std::size_t>(place * shape_.hidden + column)] =
            weights.times(rows.data() + place * shape_.intermediate, expert, 0, column);
    }
    return made;
  }

  std::vector<double> combined(const std::vector<double>& rows) const {
    const std::vector<double>&inverse = inputs_.at("inverse"), &weights = inputs_.at("weights");
    std::vector<double> out(static_cast<std::size_t>((shape_.tokens - 1) * of_[kExpertsOutRow] + shape_.hidden),
                            kUnwritten);
    for (std::int64_t token = 0; token < shape_.tokens; ++token) {
      for (std::int64_t column = 0; column < shape_.hidden; ++column) {
        double sum = 0;
        for (std::int64_t slot = token * shape_.top_k; slot < (token + 1) * shape_.top_k; ++slot) {
          const auto place = static_cast<std::int64_t>(inverse[static_cast<std::size_t>(slot)]);
          if (place >= 0)
            sum += weights[static_cast<std::size_t>(slot)] *
                   rows[static_cast<std::size_t>(place * shape_.hidden + column)];
        }
        out[static_cast<std::size_t>(token * of_[kExpertsOutRow] + column)] = sum;
      }
    }
    return out;
  }

  const MoeExpertsShape shape_;
  const std::vector<std::int64_t> of_;
  const HostTensors& inputs_;
  const std::int64_t places_;
  std::vector<double> x_;
  std::vector<std::int64_t> experts_;
};

HostTensors experts_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  return ExpertsOnCpu(problem, call, inputs).outputs();
}

}  // namespace

HostTensors answer_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  using Answer = HostTensors (*)(const Problem&, const Call&, const HostTensors&);
  static const std::map<std::string, Answer> answers = {{"act_mul", act_mul_on_cpu},
                                                        {"add_rmsnorm", add_rmsnorm_on_cpu},
                                                        {"decode_attention", decode_attention_on_cpu},
                                                        {"decode_kernel", decode_kernel_on_cpu},
                                                        {"few_rows_linear", few_rows_linear_on_cpu},
                                                        {"gate_route", gate_route_on_cpu},
                                                        {"kv_transfer", kv_transfer_on_cpu},
                                                        {"mla_decode", mla_decode_on_cpu},
                                                        {"moe_combine", combine_on_cpu},
                                                        {"moe_dispatch", dispatch_on_cpu},
                                                        {"moe_experts", experts_on_cpu},
                                                        {"prefill_attention", prefill_attention_on_cpu},
                                                        {"qk_norm_rope", qk_norm_rope_on_cpu},
                                                        {"route_plan", route_plan_on_cpu},
                                                        {"router", route_on_cpu},
                                                        {"tensor_ceiling", tensor_ceiling_on_cpu}};
  return answers.at(problem.kernel)(problem, call, inputs);
}

HostTensors answer_on_cpu(const Problem& problem, const HostTensors& inputs) {
  return answer_on_cpu(problem, find_kernel(problem.kernel).default_call(problem), inputs);
}

}  // namespace moetune
