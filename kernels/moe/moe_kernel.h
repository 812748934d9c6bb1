// Base of moe_dispatch and moe_combine, the copies around the experts: the models, the number of tokens as the one
// free dimension, and a call of a row's length and a number of places.
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
  const std::vector<Preset>& presets() const final;
  Assignment specialization(const Problem& problem) const final;
  const std::vector<std::string>& free_dimensions() const final;
  const CallSchema& call_schema() const final { return call_; }
  Call default_call(const Problem& problem) const final;

 protected:
  // `compiled_in` are the dimensions of a family. `row` and `places` are the fields of a call (MoeCallInteger).
  MoeKernel(std::string name, std::string summary, std::vector<std::string> compiled_in, CallField row,
            CallField places);

 private:
  const std::string name_, summary_;
  const std::vector<std::string> compiled_in_;
  const CallSchema call_;
};

}  // namespace moetune
