// Base of moe_dispatch, moe_experts and moe_combine: the models, the number of tokens as the one free dimension, and a
// call that begins with a row's length and a number of places.
//
// Immutable; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/moe/moe_problem.h"

namespace moetune {

class MoeKernel : public Kernel {
 public:
  const std::string& name() const final { return name_; }
  const std::string& summary() const final { return summary_; }
  const std::vector<Preset>& presets() const override;
  Assignment specialization(const Problem& problem) const final;
  const std::vector<std::string>& free_dimensions() const final;
  const CallSchema& call_schema() const final { return call_; }
  // Contiguous rows, as many places as any routing needs; fields behind those two are 0.
  Call default_call(const Problem& problem) const override;

 protected:
  // `compiled_in` are the dimensions of a family. The fields of a call begin as MoeCallInteger has them.
  MoeKernel(std::string name, std::string summary, std::vector<std::string> compiled_in,
            std::vector<CallField> integers);

 private:
  const std::string name_, summary_;
  const std::vector<std::string> compiled_in_;
  const CallSchema call_;
};

}  // namespace moetune
