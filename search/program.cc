#include "search/program.h"

#include <algorithm>
#include <bit>

namespace moetune {
namespace {

std::int64_t quotient_up(std::int64_t a, std::int64_t b) {
  if (b == 0 || (a == -std::numeric_limits<std::int64_t>::max() && b == -1)) return b == 0 ? kUndefined : -a;
  const std::int64_t quotient = a / b;
  const bool rounds_up = a % b != 0 && (a < 0) == (b < 0);
  return quotient + (rounds_up ? 1 : 0);
}

// No value is the least that 64 bits hold, so that the quotient fits.
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return kUndefined;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace

std::int64_t apply(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Op::negate:
      return -a;
    case Op::logical_not:
      return a == 0;
    case Op::to_bool:
      return a != 0;
    case Op::add:
      return __builtin_add_overflow(a, b, &result) ? kUndefined : result;
    case Op::subtract:
      return __builtin_sub_overflow(a, b, &result) ? kUndefined : result;
    case Op::multiply:
      return __builtin_mul_overflow(a, b, &result) ? kUndefined : result;
    case Op::divide:
      return b == 0 ? kUndefined : a / b;
    case Op::remainder:
      return b == 0 ? kUndefined : a % b;
    case Op::floor_div:
      return floor_div(a, b);
    case Op::modulo:
      return b == 0 ? kUndefined : a - floor_div(a, b) * b;
    case Op::equal:
      return a == b;
    case Op::not_equal:
      return a != b;
    case Op::less:
      return a < b;
    case Op::less_equal:
      return a <= b;
    case Op::greater:
      return a > b;
    case Op::greater_equal:
      return a >= b;
    case Op::minimum:
      return std::min(a, b);
    case Op::maximum:
      return std::max(a, b);
    case Op::ceil_div:
      return quotient_up(a, b);
    case Op::is_pow2:
      return a > 0 && std::has_single_bit(static_cast<std::uint64_t>(a));
    case Op::log2:
      return a < 1 ? kUndefined : std::bit_width(static_cast<std::uint64_t>(a)) - 1;
    default:
      return kUndefined;
  }
}

namespace {

// Single operators of run(); `top` is the top of its stack. The operators of most constraints are here because an
// enumeration evaluates millions, and apply() is a call. Return false for an undefined result.
inline bool remainder(std::int64_t*& top) {
  if (*top-- == 0) return false;
  *top = top[0] % top[1];
  return true;
}

inline bool push(std::int64_t*& top, std::int64_t value) {
  *++top = value;
  return value != kUndefined;
}

inline void equal(std::int64_t*& top) {
  --top;
  *top = top[0] == top[1];
}

inline void less_equal(std::int64_t*& top) {
  --top;
  *top = top[0] <= top[1];
}

// Whether `&&` or `||` skips its second operand, and leaves its value. `top` is the first operand.
inline bool skips_and(std::int64_t*& top) {
  if (*top == 0) return true;
  --top;
  return false;
}

inline bool skips_or(std::int64_t*& top) {
  if (*top != 0) {
    *top = 1;
    return true;
  }
  --top;
  return false;
}

}  // namespace

std::int64_t Program::run(const std::int64_t* slots) const {
  std::int64_t stack[kMaxStack];
  std::int64_t* top = stack - 1;
  const Instruction* const begin = code_.data();
  for (const Instruction *at = begin, *end = begin + code_.size(); at != end; ++at) {
    switch (at->op) {
      case Op::constant:
        if (!push(top, at->value)) return kUndefined;
        break;
      case Op::load:
        if (slots[at->target] == kUndefined) return kUndefined;
        *++top = slots[at->target];
        break;
      case Op::jump:
        at = begin + at->target - 1;
        break;
      case Op::jump_if_zero:
        if (*top-- == 0) at = begin + at->target - 1;
        break;
      case Op::and_then:
        if (skips_and(top)) at = begin + at->target - 1;
        break;
      case Op::or_else:
        if (skips_or(top)) at = begin + at->target - 1;
        break;
      case Op::logical_not:
        *top = *top == 0;
        break;
      case Op::to_bool:
        *top = *top != 0;
        break;
      case Op::negate:
      case Op::is_pow2:
      case Op::log2:
        if ((*top = apply(at->op, *top, 0)) == kUndefined) return kUndefined;
        break;
      case Op::equal:
        equal(top);
        break;
      case Op::less_equal:
        less_equal(top);
        break;
      case Op::multiply:
        --top;
        if (__builtin_mul_overflow(top[0], top[1], top) || *top == kUndefined) return kUndefined;
        break;
      case Op::add:
        --top;
        if (__builtin_add_overflow(top[0], top[1], top) || *top == kUndefined) return kUndefined;
        break;
      case Op::remainder:
        if (!remainder(top)) return kUndefined;
        break;
      default:
        --top;
        if ((*top = apply(at->op, top[0], top[1])) == kUndefined) return kUndefined;
    }
  }
  return *top;
}

std::vector<Slot> Program::loads() const {
  std::vector<Slot> slots;
  for (const Instruction& instruction : code_) {
    if (instruction.op == Op::load) slots.push_back(instruction.target);
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

}  // namespace moetune
