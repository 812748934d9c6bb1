// Base of families whose one free dimension is the number of tokens: their extents, their axis of a dispatch table,
// and the check of tensors of rows. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/family_interface.h"

namespace moetune {

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;

// Kernel::free_dimensions of such a kernel.
const std::vector<std::string>& tokens_alone();

class TokensFamily : public FamilyInterface {
 public:
  std::span<const TensorSlot> tensors() const final { return slots_; }
  void check(const Extents& extents) const final;
  TablePoint table_point(const Extents& extents, std::int64_t total) const final;
  TablePoint table_point_of(const Problem& problem) const final;
  Extents extents_at(const TablePoint& point, const Extents& like) const final;
  std::vector<std::string> varying_dimensions() const final { return tokens_alone(); }

 protected:
  // `kernel` begins every message.
  TokensFamily(std::string kernel, std::vector<TensorSlot> slots);

  [[noreturn]] void refuse(const std::string& rule) const;
  // The caller's tensor [rows, columns], a row's values side by side; `rows` names them in messages.
  const TensorView& matrix(std::span<const TensorView* const> tensors, std::size_t slot, const char* rows,
                           std::int64_t columns) const;
  // Throws BadInput for a tensor with gaps or of another size. A slot that the family lacks passes.
  void require(std::span<const TensorView* const> tensors, std::size_t slot, std::int64_t elements) const;

 private:
  std::string kernel_;
  std::vector<TensorSlot> slots_;
};

}  // namespace moetune
