// Base of the operators of MoE layers, whose one free dimension is the number of tokens. Stateless.
#pragma once

#include "operator.h"

namespace moetune::python {

// ",NAME=VALUE"
inline std::string pair(const char* name, int64_t value) {
  return std::string(",") + name + "=" + std::to_string(value);
}

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

class TokensOperator : public Operator {
 public:
  std::string problem(const Given& given, const FamilyKey& key) const override {
    return "tokens=" + std::to_string(extents(given).values[0]) + "," + specialization(key);
  }
  FreeExtents extents(const Given& given) const override { return {{given.tensors[tokens_slot()]->shape[0]}, 1}; }
  bool is_idle(const Given& given) const override { return extents(given).values[0] == 0; }

 protected:
  virtual int tokens_slot() const = 0;  // of a tensor whose rows are tokens

  const DLTensor& matrix(const Given& given, int slot, const char* name, const char* shape) const {
    const DLTensor& found = tensor(given, slot, name);
    if (found.ndim == 2) return found;
    refuse(std::string("'") + name + "' has " + std::to_string(found.ndim) + " dimensions; it must be " + shape);
  }
  // Throws if an output of the caller's is of another shape or type.
  void check_outputs(const Given& given, const FamilyKey& key) const {
    for (const TensorShape& output : outputs(given, key)) require_if_given(given, output);
  }
};

}  // namespace moetune::python
