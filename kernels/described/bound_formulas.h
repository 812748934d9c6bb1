// Expressions of a description under one configuration, one family and one device: what is known is folded away, and
// what is left is evaluated for each launch without allocating.
//
// Immutable; thread-safe. Refers to nothing that it was made of.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/described/description.h"
#include "kernels/family_interface.h"
#include "kernels/limits.h"
#include "search/program.h"

namespace moetune {

class BoundFormulas {
 public:
  // Binds the formulas in `which`. Without a configuration or limits, formulas that read them must not be among them.
  // Throws BadInput for an expression of names where it needs numbers, or the reverse.
  BoundFormulas(const Description& description, const FormulaRange& which, const Config* config,
                const Assignment& problem, const DeviceLimits& limits);

  // The values at some extents and for a call. Lives on the stack; refers to the formulas.
  class Values {
   public:
    Values(const BoundFormulas& formulas, const Extents& extents, const Call& call);

    std::int64_t raw(Formula formula) const;  // kUndefined if it has no value
    // The value if it lies in such a range, else `least`, and is_sound() is false from now on.
    std::int64_t within(Formula formula, std::int64_t least, std::int64_t most);
    bool holds(const std::optional<Formula>& condition);  // true without one
    void set_element(std::int64_t index);                 // that a fill's formula reads
    bool is_sound() const { return sound_; }

   private:
    const BoundFormulas& formulas_;
    bool sound_ = true;
    std::array<std::int64_t, kMaxDescribedNames> slots_;
  };

  bool reads_extent(std::size_t position) const;

 private:
  struct Input {
    Slot slot;
    bool of_call;
    std::size_t position;
  };

  void bind_lets(const Description& description, std::vector<Binding>& bindings);
  void keep_what_is_read();

  Formula first_ = 0;
  std::optional<Slot> element_;
  std::vector<Program> programs_;
  std::vector<Input> inputs_;
  std::vector<std::pair<Slot, Program>> lets_;  // each behind those that it reads
};

// Whether a family has the tensor; `formulas` are those of its problems.
bool is_present(const DescribedTensor& tensor, const BoundFormulas& formulas);

// The position of a dimension among the free ones, or of an integer field in a call.
std::optional<std::size_t> free_position(const Description& description, std::string_view dimension);

}  // namespace moetune
