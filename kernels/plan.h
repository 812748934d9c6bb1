// A plan is all it takes to run one kernel once, as plain data: the unit to compile, scratch memory and the ordered
// launches with typed, named arguments. A LaunchPlan has a fixed size, and a server fills one for every launch. A
// Plan adds the unit, crosses to the worker as JSON, and is stored beside a winner's cubin, so that launching it
// again needs neither the template nor NVRTC.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/fixed_vector.h"
#include "kernels/buffer.h"
#include "kernels/name.h"

namespace moetune {

// A template specialized by macro definitions.
struct CompileUnit {
  std::string source;                                        // "templates/decode_attention/decode_attention.cu"
  std::vector<std::pair<std::string, std::string>> defines;  // in a fixed order: it is part of the digest
  std::vector<std::string> instances;                        // of templates, to be compiled: "gemm<float, 64>"
  auto operator<=>(const CompileUnit&) const = default;
};

struct Scratch {
  Name name;
  std::int64_t bytes = 0;
  bool zeroed = false;  // zeroed once when loaded (counters that the kernel leaves at zero); else poisoned
  bool operator==(const Scratch&) const = default;
};

// A tensor map for TMA (cuTensorMapEncodeTiled), encoded against the buffer's address when it is bound.
struct TensorMap {
  enum class Swizzle : std::uint8_t { none, b32, b64, b128 };
  static constexpr std::size_t kMaxRank = 5;

  Name buffer;
  std::int64_t offset = 0;  // bytes from the buffer's start; a multiple of 16
  DType dtype = DType::bf16;
  Swizzle swizzle = Swizzle::none;
  FixedVector<std::uint64_t, kMaxRank> dims;         // elements, innermost first
  FixedVector<std::uint64_t, kMaxRank - 1> strides;  // bytes, of dims 1..n-1; multiples of 16
  FixedVector<std::uint32_t, kMaxRank> box;          // elements per dimension
  bool operator==(const TensorMap&) const = default;
};

// The address of a buffer or scratch by name, plus an offset. Without a name: a null pointer.
struct Pointer {
  Name buffer;
  std::int64_t offset = 0;  // bytes
  bool operator==(const Pointer&) const = default;
};

// A struct that a kernel takes by value, as it lies in memory.
struct StructValue {
  FixedVector<std::uint64_t, 16> words;
  bool operator==(const StructValue&) const = default;
};

// One kernel parameter: its name in the template, and its value of the parameter's type.
struct Argument {
  Name name;
  std::variant<Pointer, std::int32_t, std::int64_t, float, TensorMap, StructValue> value;
  bool operator==(const Argument&) const = default;
};

// Whether a bound plan holds its value in one of LaunchPlan::kMaxLarge places.
inline bool is_large(const Argument& argument) {
  return std::holds_alternative<TensorMap>(argument.value) || std::holds_alternative<StructValue>(argument.value);
}

using Dim3 = std::array<std::uint32_t, 3>;

// How a kernel is launched, without its arguments.
struct LaunchShape {
  EntryName entry;  // the function's name, which may be C++ (kernels/entry_name.h)
  Dim3 grid{1, 1, 1};
  Dim3 block{1, 1, 1};
  Dim3 cluster{1, 1, 1};
  std::uint32_t dynamic_shared = 0;  // bytes
  // May start before its predecessor ends (PDL). The first launch's predecessor is whatever the caller ran
  // before: it may have written the inputs, or be the plan's own last run over the same scratch. So such a
  // kernel reads nothing but hints from global memory before griddepcontrol.wait, writes nothing, and waits
  // before it ends (tests/tuner/compile/dependent_launch_test.cc and tests/simt hold kernels to that).
  bool programmatic_dependent = false;
  bool operator==(const LaunchShape&) const = default;
};

struct Launch : LaunchShape {
  FixedVector<Argument, 40> arguments;
  bool operator==(const Launch&) const = default;
};

// Sets bytes of a buffer or scratch, before the launch at position `before` (behind all of them if there are
// no more). Or copies them, if there is a symbol, to that __constant__ variable of the cubin.
struct Memset {
  Name buffer;
  std::int64_t offset = 0;  // bytes
  std::int64_t bytes = 0;
  std::uint8_t value = 0;
  std::uint32_t before = 0;
  Name symbol = {};
  bool operator==(const Memset&) const = default;
};

struct LaunchPlan {
  FixedVector<Scratch, 8> scratch;
  // Arguments of all launches: tensor maps and structs, and others.
  static constexpr std::size_t kMaxLarge = 8, kMaxScalars = 120;

  FixedVector<Memset, 8> memsets;  // in the order they run
  FixedVector<Launch, 8> launches;
  bool operator==(const LaunchPlan&) const = default;
};

struct Plan : LaunchPlan {
  CompileUnit unit;
  bool operator==(const Plan&) const = default;
};

// A stored plan of a layout that this version does not read. It is sound, and cannot be used here.
class OtherPlanVersion : public BadInput {
 public:
  using BadInput::BadInput;
};

// A plan as the JSON that is stored beside a winner: equal plans have equal texts.
std::string plan_text(const Plan& plan);

// Reading gives back exactly what was written; a document of another shape throws BadInput.
void to_json(nlohmann::json& json, const Plan& plan);
void from_json(const nlohmann::json& json, Plan& plan);

}  // namespace moetune
