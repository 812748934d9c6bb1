// Base of router and route_plan: of a problem's dimensions all but the number of tokens and the inputs' skew are
// compiled in. Immutable; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/moe/tokens_family.h"

namespace moetune {

class RoutingKernel : public Kernel {
 public:
  const std::string& name() const final { return name_; }
  const std::string& summary() const final { return summary_; }
  Assignment specialization(const Problem& problem) const final {
    Assignment compiled_in;
    for (const auto& [name, value] : problem.dims) {
      if (name != "tokens" && name != "skew") compiled_in.set(name, value);
    }
    return compiled_in;
  }
  const std::vector<std::string>& free_dimensions() const final { return tokens_alone(); }

 protected:
  RoutingKernel(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}

 private:
  const std::string name_, summary_;
};

}  // namespace moetune
