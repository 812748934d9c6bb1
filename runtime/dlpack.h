// The caller's tensors as DLPack describes them (dlpack.h, version 0.x to 1.x: the same layout), read into
// moetune's own view. Pure functions; thread-safe; they allocate nothing unless they throw.
#pragma once

#include <cstdint>

#include "kernels/family_interface.h"

struct DLTensor;

namespace moetune {

struct ViewedTensor {
  TensorView view;
  void* address = nullptr;
};

// Throws RuntimeError: invalid_argument for a type or rank that no kernel takes, wrong_device for a tensor that
// is not in the memory of CUDA device `ordinal`.
ViewedTensor view_tensor(const DLTensor& tensor, std::string_view name, int ordinal);
// The same on whatever device it is.
ViewedTensor view_tensor(const DLTensor& tensor, std::string_view name);

// A type as DLDataType has it, of one lane.
struct DLPackType {
  std::uint8_t code, bits;
};
DLPackType dlpack_type(DType type);

}  // namespace moetune
