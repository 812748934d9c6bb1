#include "kernels/family_interface.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace moetune {

const TensorView& require_tensor(std::span<const TensorSlot> slots, std::span<const TensorView* const> tensors,
                                 std::size_t slot) {
  const TensorView* const tensor = slot < tensors.size() ? tensors[slot] : nullptr;
  if (tensor == nullptr) throw BadInput("tensor '" + slots[slot].name.text() + "' is missing");
  if (tensor->dtype != slots[slot].dtype) {
    throw BadInput("tensor '" + slots[slot].name.text() + "' is " + std::string(dtype_name(tensor->dtype)) +
                   "; it must be " + std::string(dtype_name(slots[slot].dtype)));
  }
  return *tensor;
}

std::string shape_text(const TensorView& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void require_contiguous(const TensorSlot& slot, const TensorView& tensor, std::int64_t elements) {
  std::int64_t count = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != count)
      throw BadInput("tensor '" + slot.name.text() + "' is not contiguous");
    count *= tensor.shape[d];
  }
  if (count != elements) {
    throw BadInput("tensor '" + slot.name.text() + "' has " + std::to_string(count) + " elements; it must have " +
                   std::to_string(elements));
  }
}

std::int64_t even_count(const FamilyInterface& interface, const Extents& extents, const TablePoint& point) {
  if (!point.ragged) return extents[0];
  const auto all = static_cast<double>(interface.last_point(extents).position[0]);
  const double share = static_cast<double>(point.position[0]) / all;
  return std::max<std::int64_t>(1, std::llround(share * static_cast<double>(extents[0])));
}

}  // namespace moetune
