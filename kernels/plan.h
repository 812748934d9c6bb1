// What it takes to run one kernel once, as plain data: the unit to compile, scratch memory and the ordered
// launches with their arguments. It crosses the process boundary to the worker and is stored beside a
// winner's cubin, so that launching it again needs neither the template nor NVRTC.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/buffer.h"

namespace moetune {

// A template specialized by macro definitions.
struct CompileUnit {
  std::string source;  // "templates/decode_attention/decode_attention.cu"
  std::vector<std::pair<std::string, std::string>> defines;  // in a fixed order: it is part of the digest
  bool operator==(const CompileUnit&) const = default;
};

struct Scratch {
  std::string name;
  std::int64_t bytes = 0;
  bool zeroed = false;  // zeroed once when loaded (counters that the kernel leaves at zero); else poisoned
};

// A tensor map for TMA (cuTensorMapEncodeTiled), encoded against the buffer's address when the plan is
// loaded.
struct TensorMap {
  enum class Swizzle { none, b32, b64, b128 };
  std::string buffer;
  DType dtype = DType::bf16;
  std::vector<std::uint64_t> dims;     // elements, innermost first; 1 to 5
  std::vector<std::uint64_t> strides;  // bytes, of dims 1..n-1; multiples of 16
  std::vector<std::uint32_t> box;      // elements per dimension
  Swizzle swizzle = Swizzle::none;
};

// The address of a buffer or scratch by name, plus an offset.
struct Pointer {
  std::string buffer;
  std::int64_t offset = 0;  // bytes
};

struct Scalar {
  std::vector<std::uint8_t> bytes;  // as the kernel's parameter is laid out

  template <typename T>
  static Scalar of(T value) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(&value);
    return {std::vector<std::uint8_t>(begin, begin + sizeof value)};
  }
};

using Argument = std::variant<Pointer, Scalar, TensorMap>;
using Dim3 = std::array<std::uint32_t, 3>;

struct Launch {
  std::string entry;  // extern "C" name
  Dim3 grid{1, 1, 1};
  Dim3 block{1, 1, 1};
  Dim3 cluster{1, 1, 1};
  std::uint32_t dynamic_shared = 0;  // bytes
  std::vector<Argument> arguments;
  // May start before its predecessor ends (PDL). The first launch's predecessor is whatever the caller ran
  // before: it may have written the inputs, or be the plan's own last run over the same scratch. So such a
  // kernel reads nothing but hints from global memory before griddepcontrol.wait, and every launch of its
  // plan waits before it ends.
  bool programmatic_dependent = false;
};

struct Plan {
  CompileUnit unit;
  std::vector<Scratch> scratch;
  std::vector<Launch> launches;
};

void to_json(nlohmann::json& json, const Plan& plan);
void from_json(const nlohmann::json& json, Plan& plan);
void to_json(nlohmann::json& json, const Buffer& buffer);
void from_json(const nlohmann::json& json, Buffer& buffer);

}  // namespace moetune
