// moe_experts on the host: what each of its launches computes, as those of the mma body are made.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/moe/moe_experts_problem.h"
#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/mxfp4.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// The parameters of each launch, in the templates' order.
const std::map<std::string, std::vector<std::string>> kExpertParameters = {
    {"moe_experts_up",
     {"x", "x_row", "x_scale", "sorted", "offsets", "weights", "weight_row", "weight_expert", "weight_scales", "biases",
      "between", "between_scales", "tokens", "places"}},
    {"moe_experts_down",
     {"between", "offsets", "weights", "weight_row", "weight_expert", "weight_scales", "biases", "between_scales",
      "products", "places"}},
    {"moe_experts_combine", {"products", "inverse", "weights", "out", "out_row", "tokens"}},
};

class ExpertsLaunch {
 public:
  ExpertsLaunch(const Kernel& kernel, const Parameters& parameters)
      : names_(kExpertParameters.at(kernel.base)), values_(parameters), shape_(problem_of(kernel)) {}

  void up() const {
    std::vector<double> row(static_cast<std::size_t>(shape_.hidden)),
        made(static_cast<std::size_t>(shape_.intermediate));
    for_places([&](std::int64_t place, std::int64_t expert) {
      const std::int64_t of_x = row_of(place);
      if (of_x < 0 && !shape_.out_places) return;
      for (std::int64_t k = 0; k < shape_.hidden; ++k)
        row[static_cast<std::size_t>(k)] =
            of_x < 0 ? 0
                     : at(shape_.operand, "x", of_x * wide("x_row") + k) *
                           scale("x_scale", of_x * shape_.x_scales() + k / kExpertsScaleGroup);
      for (std::int64_t i = 0; i < shape_.intermediate; ++i) {
        const double gate = dot(row, expert, 2, 0, i), up = dot(row, expert, 2, 1, i);
        made[static_cast<std::size_t>(i)] = activated(gate, up);
      }
      write_between(place, made);
    });
  }

  void down() const {
    std::vector<double> row(static_cast<std::size_t>(shape_.intermediate));
    for_places([&](std::int64_t place, std::int64_t expert) {
      for (std::int64_t i = 0; i < shape_.intermediate; ++i)
        row[static_cast<std::size_t>(i)] =
            at(shape_.operand, "between", place * shape_.intermediate + i) *
            scale("between_scales", shape_.has_up() ? place : place * shape_.x_scales() + i / kExpertsScaleGroup);
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        put(shape_.dtype, "products", place * shape_.hidden + column, dot(row, expert, 1, 0, column));
    });
  }

  void combine() const {
    for (std::int64_t token = 0; token < narrow("tokens"); ++token) {
      for (std::int64_t column = 0; column < shape_.hidden; ++column) {
        double sum = 0;
        for (std::int64_t slot = token * shape_.top_k; slot < (token + 1) * shape_.top_k; ++slot) {
          const auto place = static_cast<std::int64_t>(at(DType::i32, "inverse", slot));
          if (place >= 0)
            sum += at(DType::f32, "weights", slot) * at(shape_.dtype, "products", place * shape_.hidden + column);
        }
        put(shape_.dtype, "out", token * wide("out_row") + column, sum);
      }
    }
  }

 private:
  static MoeExpertsShape problem_of(const Kernel& kernel) {
    const moetune::Kernel& known = find_kernel("moe_experts");
    return MoeExpertsShape(known.parse(kernel.specialization));
  }

  std::int64_t wide(const char* name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return static_cast<std::int64_t>(values_[i]);
    }
    throw std::logic_error(std::string("no parameter ") + name);
  }
  std::int64_t narrow(const char* name) const { return static_cast<std::int32_t>(wide(name)); }
  void* memory(const char* name) const { return reinterpret_cast<void*>(wide(name)); }

  double at(DType type, const char* name, std::int64_t index) const { return load_element(type, memory(name), index); }
  double scale(const char* name, std::int64_t index) const { return shape_.narrow() ? at(DType::f32, name, index) : 1; }
  void put(DType type, const char* name, std::int64_t index, double value) const {
    store_element(type, memory(name), index, round_to(type, value));
  }
  // The row of x of a place; -1 of padding.
  std::int64_t row_of(std::int64_t place) const {
    if (shape_.x_places) return place;
    const auto slot = static_cast<std::int64_t>(at(DType::i32, "sorted", place));
    return slot < 0 || slot >= narrow("tokens") * shape_.top_k ? -1 : slot / shape_.top_k;
  }

  // In e4m3 with a scale a place, for which there is room.
  void write_between(std::int64_t place, const std::vector<double>& values) const {
    if (!shape_.has_down()) {
      for (std::size_t i = 0; i < values.size(); ++i)
        put(shape_.dtype, "between", place * shape_.intermediate + static_cast<std::int64_t>(i), values[i]);
      return;
    }
    double scale = 1, largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    if (shape_.narrow() && largest > 0) scale = round_to(DType::f32, largest / 448);
    if (shape_.narrow()) put(DType::f32, "between_scales", place, scale);
    for (std::size_t i = 0; i < values.size(); ++i)
      put(shape_.operand, "between", place * shape_.intermediate + static_cast<std::int64_t>(i), values[i] / scale);
  }
  double activated(double gate, double up) const {
    if (!shape_.biased) return gate / (1 + std::exp(-gate)) * up;
    const double least = std::min(gate, 7.0);
    return least / (1 + std::exp(-1.702 * least)) * (std::clamp(up, -7.0, 7.0) + 1);
  }

  // With a column of an expert's weights, which has so many matrices, and its bias.
  double dot(const std::vector<double>& values, std::int64_t expert, std::int64_t matrices, std::int64_t matrix,
             std::int64_t column) const {
    const std::int64_t width = matrices == 2 ? shape_.intermediate : shape_.hidden;
    const auto count = static_cast<std::int64_t>(values.size());
    const std::int64_t row = shape_.biased ? matrices * column + matrix : matrix * width + column;
    const std::int64_t row_step = shape_.n_major ? 1 : wide("weight_row"),
                       k_step = shape_.n_major ? wide("weight_row") : 1;
    const std::int64_t begin = expert * wide("weight_expert") + row * row_step;
    const std::int64_t scales = (expert * matrices * width + row) / kExpertsScaleGroup * (count / kExpertsScaleGroup);
    double sum = shape_.biased ? at(shape_.dtype, "biases", (expert * width + column) * matrices + matrix) : 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const double value = values[static_cast<std::size_t>(k)];
      if (shape_.packed) {
        const PackedPlace place = packed_place(matrices, width, count, expert, matrix, column, k);
        sum += value * packed_value(
                           place, [&](std::int64_t byte) { return at(DType::u8, "weights", byte); },
                           static_cast<std::uint8_t>(at(DType::u8, "weight_scales", place.scale)));
      } else {
        sum += value * at(shape_.operand, "weights", begin + k * k_step) *
               scale("weight_scales", scales + k / kExpertsScaleGroup);
      }
    }
    return sum;
  }

  // Every place of a segment, with its expert.
  template <typename Work>
  void for_places(Work work) const {
    for (std::int64_t expert = 0; expert < shape_.experts(); ++expert) {
      const auto end = static_cast<std::int64_t>(at(DType::i32, "offsets", expert + 1));
      for (auto place = static_cast<std::int64_t>(at(DType::i32, "offsets", expert)); place < end; ++place)
        work(place, expert);
    }
  }

  const std::vector<std::string>& names_;
  const Parameters& values_;
  const MoeExpertsShape shape_;
};

}  // namespace

std::size_t experts_parameters(const std::string& name) {
  const auto found = kExpertParameters.find(name);
  return found == kExpertParameters.end() ? 0 : found->second.size();
}

void run_experts(const Kernel& kernel, const Parameters& parameters) {
  const ExpertsLaunch launch(kernel, parameters);
  if (kernel.base == "moe_experts_up") return launch.up();
  if (kernel.base == "moe_experts_down") return launch.down();
  launch.combine();
}

}  // namespace fake_cuda
