// A family as its callers in a server see it, with all names looked up: which tensors a launch takes, how the
// caller's tensors become extents and a call, what a call must keep to, and which cell of a dispatch table
// serves it.
//
// Immutable; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fixed_vector.h"
#include "kernels/buffer.h"
#include "kernels/call.h"
#include "kernels/name.h"
#include "kernels/problem.h"

namespace moetune {

// Values of a family's free dimensions, in the kernel's order.
using Extents = FixedVector<std::int64_t, 4>;

// One tensor that a kernel can take. Slots have fixed places: a family that lacks one does not move the others.
struct TensorSlot {
  Name name;  // the buffer's name in plans
  DType dtype = DType::f32;
  Role role = Role::input;
  bool present = true;          // the family has it
  std::int64_t alignment = 16;  // of its address, bytes
};

// A caller's tensor. Strides are in elements.
struct TensorView {
  static constexpr std::size_t kMaxRank = 6;

  DType dtype = DType::f32;
  FixedVector<std::int64_t, kMaxRank> shape;
  FixedVector<std::int64_t, kMaxRank> strides;
};

// The place of a problem in a dispatch table: a position on each axis, and whether the batch is ragged (ragged
// batches have choices of their own).
struct TablePoint {
  FixedVector<std::int64_t, 3> position;
  bool ragged = false;
  auto operator<=>(const TablePoint&) const = default;
};

class FamilyInterface {
 public:
  virtual ~FamilyInterface() = default;

  virtual std::span<const TensorSlot> tensors() const = 0;

  // Throws BadInput for extents that no problem has.
  virtual void check(const Extents& extents) const = 0;
  // Throws BadInput for a call that no kernel of the family could run at such extents, which are checked.
  virtual void check_call(const Extents& extents, const Call& call) const = 0;

  // `total` is the kernel's measure of all work (decode_attention: tokens of all contexts), 0 if unknown.
  virtual TablePoint table_point(const Extents& extents, std::int64_t total) const = 0;
  // No work at `most` or less lies past this position, whatever its total.
  virtual TablePoint last_point(const Extents& most) const { return table_point(most, 0); }
  // The point of a problem of the family, by how its inputs are made.
  virtual TablePoint table_point_of(const Problem& problem) const = 0;
  // Whether a table_point can be ragged; then make_ragged turns a problem into one whose search makes such a batch.
  virtual bool has_ragged() const { return false; }
  virtual void make_ragged(Problem&) const {}
  // The least extents at or past such a position, if the total is unknown; what the position leaves open is as in
  // `like`.
  virtual Extents extents_at(const TablePoint& point, const Extents& like) const = 0;
  // A dimension of its problems that is no extent, but so many times one.
  struct Multiple {
    std::string name, of;
    std::int64_t factor = 1;
  };
  virtual std::optional<Multiple> multiple() const { return std::nullopt; }
  // The dimensions of a problem that differ between most cells of a table, none of which is compiled in: problems that
  // differ in them only are of one family. A hint for speed.
  virtual std::vector<std::string> varying_dimensions() const { return {}; }

  // Reads the caller's tensors (by slot; null for one that the family lacks) and options, which are
  // `name=value` pairs. Throws BadInput for a missing tensor, a wrong type, rank or size.
  virtual void bind(std::span<const TensorView* const> tensors, std::string_view options, Extents& extents,
                    Call& call) const = 0;
};

// The first extent (sequences, tokens) of the even work that lies where a problem does in a dispatch table, rounded;
// the problem's own if it is even.
std::int64_t even_count(const FamilyInterface& interface, const Extents& extents, const TablePoint& point);

// The caller's tensor of a slot. Throws BadInput if it is missing or of another type.
const TensorView& require_tensor(std::span<const TensorSlot> slots, std::span<const TensorView* const> tensors,
                                 std::size_t slot);
// "[4, 128]".
std::string shape_text(const TensorView& tensor);
// Throws BadInput if the tensor has gaps, or another number of elements.
void require_contiguous(const TensorSlot& slot, const TensorView& tensor, std::int64_t elements);

}  // namespace moetune
