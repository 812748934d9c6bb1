#include "search/value_range.h"

#include <algorithm>
#include <vector>

namespace moetune {
namespace {

using Instruction = Program::Instruction;

constexpr int kMostForks = 64;  // each doubles the ways at most

ValueRange hull(const ValueRange& a, const ValueRange& b) {
  if (a.is_empty() || b.is_empty()) return {a.is_empty() ? b.low : a.low, a.is_empty() ? b.high : a.high, true};
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.undefined || b.undefined};
}

// Bounds an operator that is monotone in each operand by its corners.
ValueRange of_corners(Op op, const ValueRange& a, const ValueRange& b) {
  ValueRange all;
  bool is_first = true;
  for (const std::int64_t x : {a.low, a.high}) {
    for (const std::int64_t y : {b.low, b.high}) {
      const std::int64_t value = apply(op, x, y);
      if (value == kUndefined) return ValueRange::anything();
      all = is_first ? ValueRange::of(value) : hull(all, ValueRange::of(value));
      is_first = false;
    }
  }
  return all;
}

ValueRange truth(bool can_be_false, bool can_be_true) { return {can_be_false ? 0 : 1, can_be_true ? 1 : 0}; }

ValueRange remainder(const ValueRange& a, const ValueRange& b) {
  if (a.low < 0 || b.low <= 0) return ValueRange::anything();
  if (b.low == b.high && a.low / b.low == a.high / b.low) return {a.low % b.low, a.high % b.low};
  return {0, std::min(a.high, b.high - 1)};
}

ValueRange equality(const ValueRange& a, const ValueRange& b) {
  const bool is_one = a.low == a.high && b.low == b.high;
  return truth(!is_one || a.low != b.low, a.low <= b.high && b.low <= a.high);
}

ValueRange value_of(Op op, const ValueRange& a, const ValueRange& b) {
  if (a.low == a.high && b.low == b.high) return ValueRange::of(apply(op, a.low, b.low));
  switch (op) {
    case Op::negate:
      return {-a.high, -a.low};
    case Op::logical_not:
      return truth(!a.is_zero(), !a.is_not_zero());
    case Op::to_bool:
      return truth(!a.is_not_zero(), !a.is_zero());
    case Op::divide:
    case Op::floor_div:
    case Op::ceil_div:
      return b.is_not_zero() ? of_corners(op, a, b) : ValueRange::anything();
    case Op::modulo:
      if (a.low < 0 && b.low > 0) return {0, b.high - 1};
      return remainder(a, b);
    case Op::remainder:
      return remainder(a, b);
    case Op::equal:
      return equality(a, b);
    case Op::not_equal: {
      const ValueRange same = equality(a, b);
      return {1 - same.high, 1 - same.low};
    }
    case Op::less:
      return truth(a.high >= b.low, a.low < b.high);
    case Op::less_equal:
      return truth(a.high > b.low, a.low <= b.high);
    case Op::greater:
      return truth(a.low <= b.high, a.high > b.low);
    case Op::greater_equal:
      return truth(a.low < b.high, a.high >= b.low);
    case Op::is_pow2:
      return truth(true, a.high > 0);
    case Op::log2:
      return a.low < 1 ? ValueRange::anything() : ValueRange{apply(op, a.low, 0), apply(op, a.high, 0)};
    default:
      return of_corners(op, a, b);  // sums, products, the smaller and the larger
  }
}

// One way through a program; where a condition is open it takes both.
class Walk {
 public:
  Walk(const std::vector<Instruction>& code, const ValueRange* slots) : code_(code), slots_(slots) {}

  ValueRange from(std::size_t at, std::vector<ValueRange> stack, bool undefined) {
    for (; at < code_.size(); ++at) {
      const Instruction& instruction = code_[at];
      switch (instruction.op) {
        case Op::constant:
          stack.push_back(ValueRange::of(instruction.value));
          break;
        case Op::load:
          stack.push_back(slots_[instruction.target]);
          break;
        case Op::jump:
          at = instruction.target - 1;
          continue;
        case Op::jump_if_zero:
        case Op::and_then:
        case Op::or_else: {
          const ValueRange condition = pop(stack);
          const bool jumps_if_zero = instruction.op != Op::or_else;
          const bool can_jump = jumps_if_zero ? !condition.is_not_zero() : !condition.is_zero();
          const bool can_stay = jumps_if_zero ? !condition.is_zero() : !condition.is_not_zero();
          if (!can_jump) continue;
          std::vector<ValueRange> jumped = can_stay ? stack : std::move(stack);
          if (instruction.op != Op::jump_if_zero) jumped.push_back(ValueRange::of(jumps_if_zero ? 0 : 1));
          if (can_stay && ++forks_ > kMostForks) return ValueRange::anything();
          const ValueRange there = from(instruction.target, std::move(jumped), undefined);
          return can_stay ? hull(there, from(at + 1, std::move(stack), undefined)) : there;
        }
        default: {
          const bool is_unary = instruction.op == Op::negate || instruction.op == Op::logical_not ||
                                instruction.op == Op::to_bool || instruction.op == Op::is_pow2 ||
                                instruction.op == Op::log2;
          const ValueRange b = is_unary ? ValueRange{} : pop(stack);
          stack.push_back(value_of(instruction.op, pop(stack), b));
        }
      }
      // Whatever has no value ends the program.
      if (stack.empty()) continue;
      if (stack.back().is_empty()) return stack.back();
      undefined = undefined || stack.back().undefined;
    }
    ValueRange result = stack.back();
    result.undefined = undefined;
    return result;
  }

 private:
  static ValueRange pop(std::vector<ValueRange>& stack) {
    const ValueRange top = stack.back();
    stack.pop_back();
    return top;
  }

  const std::vector<Instruction>& code_;
  const ValueRange* const slots_;
  int forks_ = 0;
};

}  // namespace

ValueRange run_within(const Program& program, const ValueRange* slots) {
  std::vector<ValueRange> stack;
  stack.reserve(16);
  return Walk(program.code(), slots).from(0, std::move(stack), false);
}

}  // namespace moetune
