// moe_experts on the host: what each of its launches computes, as those of the mma body are made.
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

#include "kernels/moe/moe_experts_problem.h"
#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// The parameters of each launch, in the templates' order.
const std::map<std::string, std::vector<std::string>> kExpertParameters = {
    {"moe_experts_up",
     {"x", "x_row", "sorted", "offsets", "weights", "weight_row", "weight_expert", "between", "tokens",
      "places"}},
    {"moe_experts_down",
     {"between", "offsets", "weights", "weight_row", "weight_expert", "products", "places"}},
    {"moe_experts_combine", {"products", "inverse", "weights", "out", "out_row", "tokens"}},
};

class ExpertsLaunch {
 public:
  ExpertsLaunch(const Kernel& kernel, const Parameters& parameters)
      : names_(kExpertParameters.at(kernel.base)), values_(parameters), shape_(problem_of(kernel)) {}

  void up() const {
    for_places([&](std::int64_t place, std::int64_t weights) {
      const auto slot = static_cast<std::int64_t>(at(DType::i32, "sorted", place));
      if (slot < 0 || slot >= narrow("tokens") * shape_.top_k) return;
      const std::int64_t row = slot / shape_.top_k * wide("x_row");
      for (std::int64_t i = 0; i < shape_.intermediate; ++i) {
        const std::int64_t gates = weights + i * wide("weight_row");
        const double gate = dot("x", row, gates, shape_.hidden);
        const double up = dot("x", row, gates + shape_.intermediate * wide("weight_row"), shape_.hidden);
        put("between", place * shape_.intermediate + i, gate / (1 + std::exp(-gate)) * up);
      }
    });
  }

  void down() const {
    for_places([&](std::int64_t place, std::int64_t weights) {
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        put("products", place * shape_.hidden + column,
            dot("between", place * shape_.intermediate, weights + column * wide("weight_row"),
                shape_.intermediate));
    });
  }

  void combine() const {
    for (std::int64_t token = 0; token < narrow("tokens"); ++token) {
      for (std::int64_t column = 0; column < shape_.hidden; ++column) {
        double sum = 0;
        for (std::int64_t slot = token * shape_.top_k; slot < (token + 1) * shape_.top_k; ++slot) {
          const auto place = static_cast<std::int64_t>(at(DType::i32, "inverse", slot));
          if (place >= 0)
            sum += at(DType::f32, "weights", slot) *
                   at(shape_.dtype, "products", place * shape_.hidden + column);
        }
        put("out", token * wide("out_row") + column, sum);
      }
    }
  }

 private:
  static MoeExpertsShape problem_of(const Kernel& kernel) {
    const moetune::Kernel& known = find_kernel("moe_experts");
    return MoeExpertsShape(parse_problem(known.name(), known.schema(), nullptr, kernel.specialization));
  }

  std::int64_t wide(const char* name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return static_cast<std::int64_t>(values_[i]);
    }
    throw std::logic_error(std::string("no parameter ") + name);
  }
  std::int64_t narrow(const char* name) const { return static_cast<std::int32_t>(wide(name)); }
  void* memory(const char* name) const { return reinterpret_cast<void*>(wide(name)); }

  double at(DType type, const char* name, std::int64_t index) const {
    return load_element(type, memory(name), index);
  }
  void put(const char* name, std::int64_t index, double value) const {
    store_element(shape_.dtype, memory(name), index, round_to(shape_.dtype, value));
  }
  double dot(const char* rows, std::int64_t row, std::int64_t weight, std::int64_t count) const {
    double sum = 0;
    for (std::int64_t k = 0; k < count; ++k)
      sum += at(shape_.dtype, rows, row + k) * at(shape_.dtype, "weights", weight + k);
    return sum;
  }

  // Every place of a segment, with where its expert's weights begin.
  template <typename Work>
  void for_places(Work work) const {
    for (std::int64_t expert = 0; expert < shape_.experts(); ++expert) {
      const auto end = static_cast<std::int64_t>(at(DType::i32, "offsets", expert + 1));
      for (auto place = static_cast<std::int64_t>(at(DType::i32, "offsets", expert)); place < end; ++place)
        work(place, expert * wide("weight_expert"));
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
