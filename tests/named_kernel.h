// What tests' own kernels have in common.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace moetune {

class NamedKernel : public Kernel {
 public:
  explicit NamedKernel(std::string name, ProblemSchema schema = {})
      : name_(std::move(name)), schema_(std::move(schema)) {}

  const std::string& name() const override { return name_; }
  const std::string& summary() const override { return name_; }
  const ProblemSchema& schema() const override { return schema_; }
  const std::vector<Preset>& presets() const override { return presets_; }
  void check(const Problem&) const override {}
  std::unique_ptr<const FamilyInterface> family_interface(const Problem&) const override { return nullptr; }

 private:
  const std::string name_;
  const ProblemSchema schema_;
  const std::vector<Preset> presets_;
};

}  // namespace moetune
