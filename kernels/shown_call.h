// A call as its tensors and a few facts show it: the family, the extents, and every tensor that it has. Plain values.
#pragma once

#include <string>
#include <vector>

#include "kernels/family_interface.h"

namespace moetune {

struct ShownTensor {
  static constexpr int kNoDimension = -1, kAnySize = -2;

  Name name;
  Role role = Role::input;
  bool present = false;  // the family has it; what follows is of such
  DType dtype = DType::f32;
  FixedVector<std::int64_t, TensorView::kMaxRank> shape;
  // The dimension that a size is by itself: first the free ones in their order, the others from Extents::capacity() on.
  FixedVector<int, TensorView::kMaxRank> dimensions;
};

struct ShownCall {
  std::vector<ShownTensor> tensors;     // by slot; without any tensor of the caller's only names and roles
  std::size_t integers = 0, reals = 0;  // fields of the call that no tensor shows: its first ones
  Extents extents;                      // one of 0: there is nothing to launch, and strides were not checked
  std::string specialization;  // `name=value` pairs that differ from the kernel's usual ones, or that sizes are
  std::string problem;         // the same with the free dimensions in front
  std::string options;         // for FamilyInterface::bind
};

}  // namespace moetune
