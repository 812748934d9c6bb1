#include "kernels/moe/tokens_family.h"

#include <utility>

#include "base/error.h"

namespace moetune {

const std::vector<std::string>& tokens_alone() {
  static const std::vector<std::string> names = {"tokens"};
  return names;
}

TokensFamily::TokensFamily(std::string kernel, std::vector<TensorSlot> slots)
    : kernel_(std::move(kernel)), slots_(std::move(slots)) {}

void TokensFamily::check(const Extents& extents) const {
  if (extents.size() != 1) refuse("the extents are the number of tokens");
  if (extents[0] < 1 || extents[0] > kMostTokens)
    refuse("tokens=" + std::to_string(extents[0]) + " is out of range (from 1 to " + std::to_string(kMostTokens) + ")");
}

TablePoint TokensFamily::table_point(const Extents& extents, std::int64_t) const {
  TablePoint point;
  point.position = {extents[0]};
  return point;
}

TablePoint TokensFamily::table_point_of(const Problem& problem) const { return table_point({problem["tokens"]}, 0); }

Extents TokensFamily::extents_at(const TablePoint& point, const Extents&) const { return {point.position[0]}; }

void TokensFamily::refuse(const std::string& rule) const { throw BadInput(kernel_ + ": " + rule); }

const TensorView& TokensFamily::matrix(std::span<const TensorView* const> tensors, std::size_t slot, const char* rows,
                                       std::int64_t columns) const {
  const TensorView& tensor = require_tensor(slots_, tensors, slot);
  if (tensor.shape.size() == 2 && tensor.shape[1] == columns && tensor.strides[1] == 1) return tensor;
  refuse("tensor '" + slots_[slot].name.text() + "' must be [" + rows + ", " + std::to_string(columns) +
         "], the values of a row side by side");
}

void TokensFamily::require(std::span<const TensorView* const> tensors, std::size_t slot, std::int64_t elements) const {
  if (slots_[slot].present) require_contiguous(slots_[slot], require_tensor(slots_, tensors, slot), elements);
}

}  // namespace moetune
