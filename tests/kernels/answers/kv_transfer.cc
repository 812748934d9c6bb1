// kv_transfer on the CPU, rounded as the target's type rounds.
#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

// One end of the transfer: elements from one page, plane, outer and inner to the next, from the call's `first` on.
struct TransferEnd {
  TransferEnd(const Call& call, std::size_t first, const std::vector<double>* pages)
      : strides(call.integers.begin() + static_cast<std::ptrdiff_t>(first)), list(pages) {}

  // Negative if the list has no page there.
  std::int64_t page(std::int64_t i) const {
    return list == nullptr ? i : static_cast<std::int64_t>((*list)[static_cast<std::size_t>(i)]);
  }
  std::size_t at(std::int64_t of_page, std::int64_t plane, std::int64_t outer, std::int64_t inner) const {
    return static_cast<std::size_t>(of_page * strides[0] + plane * strides[1] + outer * strides[2] +
                                    inner * strides[3]);
  }

  decltype(Call::integers)::const_iterator strides;
  const std::vector<double>* list;
};

float scale_of_row(const Problem& problem, const HostTensors& inputs, std::int64_t plane, std::int64_t outer,
                   std::int64_t inner) {
  const std::vector<double>& scales = inputs.at("scales");
  const bool by_outer = problem.is("scale", "outer"), by_inner = problem.is("scale", "inner");
  const std::int64_t each = by_outer ? problem["outer"] : by_inner ? problem["inner"] : 1;
  return static_cast<float>(scales[static_cast<std::size_t>(plane * each + (by_outer ? outer : by_inner ? inner : 0))]);
}

}  // namespace

HostTensors kv_transfer_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const auto list = [&](const char* name) { return inputs.contains(name) ? &inputs.at(name) : nullptr; };
  const TransferEnd from(call, 0, list("source_pages")), to(call, 4, list("target_pages"));
  const std::vector<double>& source = inputs.at("source");
  const bool widens = problem.is("source", "e4m3"), converts = !problem.is("scale", "none");
  const Buffer written = find_kernel(problem.kernel).buffers(problem, call, 0).back();
  std::vector<double> target(static_cast<std::size_t>(written.elements), kUnwritten);
  for (std::int64_t i = 0; i < problem["pages"]; ++i) {
    if (from.page(i) < 0 || to.page(i) < 0) continue;
    for (std::int64_t row = 0; row < problem["planes"] * problem["outer"] * problem["inner"]; ++row) {
      const std::int64_t inner = row % problem["inner"], outer = row / problem["inner"] % problem["outer"],
                         plane = row / problem["inner"] / problem["outer"];
      const double* const values = source.data() + from.at(from.page(i), plane, outer, inner);
      double* const made = target.data() + to.at(to.page(i), plane, outer, inner);
      const float scale = converts ? scale_of_row(problem, inputs, plane, outer, inner) : 1.0f,
                  factor = widens ? scale : 1 / scale;
      for (std::int64_t c = 0; c < problem["width"]; ++c)
        made[c] = converts ? round_to(written.dtype, static_cast<float>(values[c]) * factor) : values[c];
    }
  }
  return {{"target", std::move(target)}};
}

}  // namespace moetune
