// A compiled expression: flat postfix code over a small stack, with jumps for what `&&`, `||` and `?:` skip.
// Evaluating one allocates nothing. Immutable once built; safe to share between threads.
//
// There is no exception and no undefined behaviour in evaluation: division by zero, log2 of a number below 1
// and overflow of 64 bits give kUndefined, as does reading a slot that holds it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/vocabulary.h"

namespace moetune {

inline constexpr std::int64_t kUndefined = std::numeric_limits<std::int64_t>::min();
// How that comes about, for messages.
inline constexpr const char* kWhyUndefined = "a division by zero, log2 of less than 1, or an overflow";
inline constexpr std::size_t kMaxStack = 512;

enum class Op : std::uint8_t {
  constant,
  load,
  negate,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  remainder,
  floor_div,  // rounded down, as Python's //
  modulo,     // what floor_div leaves: its sign is the divisor's
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  minimum,
  maximum,
  ceil_div,
  is_pow2,
  log2,
  logical_and,
  logical_or,
  choose,
  jump,          // programs only: always
  jump_if_zero,  // programs only: pops
  and_then,      // programs only: pops; where it was zero, pushes 0 and jumps
  or_else,       // programs only: pops; where it was not zero, pushes 1 and jumps
  to_bool,       // programs only: 0 stays, anything else becomes 1
};

// One- and two-operand arithmetic (`b` ignored for one), as programs and constant folding both do it.
std::int64_t apply(Op op, std::int64_t a, std::int64_t b);

class Program {
 public:
  struct Instruction {
    Op op;
    std::uint32_t target = 0;  // slot to load, or instruction to jump to
    std::int64_t value = 0;
  };

  static Program constant(std::int64_t value) { return Program({{Op::constant, 0, value}}); }
  explicit Program(std::vector<Instruction> code) : code_(std::move(code)) {}

  std::int64_t run(const std::int64_t* slots) const;
  // Neither zero nor undefined.
  bool holds(const std::int64_t* slots) const {
    const std::int64_t value = run(slots);
    return value != 0 && value != kUndefined;
  }

  bool is_constant() const { return code_.size() == 1 && code_[0].op == Op::constant; }
  std::int64_t constant_value() const { return code_[0].value; }
  std::vector<Slot> loads() const;  // ascending, each once
  std::size_t size() const { return code_.size(); }
  const std::vector<Instruction>& code() const { return code_; }

 private:
  std::vector<Instruction> code_;
};

}  // namespace moetune
