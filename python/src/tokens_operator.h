// What the operators of MoE layers have in common: their one free dimension is the number of tokens. Stateless.
#pragma once

#include "operator.h"

namespace moetune::python {

inline constexpr DLDataType kI32{kDLInt, 32, 1}, kI64{kDLInt, 64, 1}, kF32{kDLFloat, 32, 1},
    kF16{kDLFloat, 16, 1}, kBf16{kDLBfloat, 16, 1}, kE4m3{kDLFloat8_e4m3fn, 8, 1}, kBool{kDLBool, 8, 1};

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
  FreeExtents extents(const Given& given) const override {
    return {{given.tensors[tokens_slot()]->shape[0]}, 1};
  }
  bool is_idle(const Given& given) const override { return extents(given).values[0] == 0; }

 protected:
  virtual int tokens_slot() const = 0;  // of a tensor whose rows are tokens

  const DLTensor& matrix(const Given& given, int slot, const char* name, const char* shape) const {
    const DLTensor& found = tensor(given, slot, name);
    if (found.ndim == 2) return found;
    refuse(std::string("'") + name + "' has " + std::to_string(found.ndim) + " dimensions; it must be " +
           shape);
  }
  // Throws if an output of the caller's has another shape.
  void check_outputs(const Given& given, const FamilyKey& key) const {
    for (const TensorShape& output : outputs(given, key)) {
      if (given.tensors[output.slot] != nullptr) require(given, output);
    }
  }
};

}  // namespace moetune::python
