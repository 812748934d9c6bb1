// A Call holds what belongs to the caller of a kernel and not to its problem: strides of tensors, the size of a pool,
// a scale. It has one number for each field that its kernel names, in the kernel's order. It has a fixed size, so
// that a server fills one for every launch without allocating. A plain value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct CallField {
  std::string name;  // "q_token_stride"
  std::string doc;   // what it means, and its unit
  // At 1 the kernel may assume something of its caller, to be quicker. Results and layouts are as with 0.
  bool is_assumption = false;
};

// The fields of a kernel's calls.
struct CallSchema {
  std::vector<CallField> integers;
  std::vector<CallField> reals;
};

struct Call {
  static constexpr std::size_t kMaxIntegers = 24, kMaxReals = 4;

  std::array<std::int64_t, kMaxIntegers> integers{};
  std::array<double, kMaxReals> reals{};
  bool operator==(const Call&) const = default;
};

// Sets an assumption of the schema to 1. Throws BadField `assume` for any other field, naming those of `kernel`.
void set_assumption(Call& call, const CallSchema& schema, std::string_view kernel, std::string_view name);

// Sets a field by name. Throws BadInput for an unknown one, suggesting the nearest, and if an integer field
// gets no whole number, or one beyond the 2^53 that a double counts to.
void set_field(Call& call, const CallSchema& schema, std::string_view name, double value);

}  // namespace moetune
