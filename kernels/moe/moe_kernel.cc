#include "kernels/moe/moe_kernel.h"

#include <utility>

#include "kernels/moe/tokens_family.h"

namespace moetune {

MoeKernel::MoeKernel(std::string name, std::string summary, std::vector<std::string> compiled_in,
                     std::vector<CallField> integers)
    : name_(std::move(name)),
      summary_(std::move(summary)),
      compiled_in_(std::move(compiled_in)),
      call_{.integers = std::move(integers), .reals = {}} {}

const std::vector<Preset>& MoeKernel::presets() const {
  static const std::vector<Preset> presets = moe_presets();
  return presets;
}

Assignment MoeKernel::specialization(const Problem& problem) const {
  Assignment compiled_in;
  for (const std::string& name : compiled_in_) compiled_in.set(name, problem.dims.at(name));
  return compiled_in;
}

const std::vector<std::string>& MoeKernel::free_dimensions() const { return tokens_alone(); }

Call MoeKernel::default_call(const Problem& problem) const {
  const MoeShape shape(problem);
  Call call;
  call.integers[kMoeRow] = shape.hidden;
  call.integers[kMoePlaces] = shape.sizes.places();
  return call;
}

}  // namespace moetune
