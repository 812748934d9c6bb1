// A user's kernel as its kernel.json describes it (docs/new_kernel.md has the format): plain data, checked as far as it
// can be without a problem, a configuration or a device.
//
// Sizes, depth, counts and lengths are bounded. All errors are BadInput and name the file, the line and the key, or the
// column of an expression. Immutable after reading; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/call.h"
#include "kernels/name.h"
#include "kernels/plan.h"
#include "kernels/problem.h"
#include "search/space_file.h"

namespace moetune {

// The number of an expression in Description::formulas.
using Formula = std::size_t;
// Neighbours there, by what they are of.
struct FormulaRange {
  Formula begin = 0, end = 0;
};

// A type that is fixed, or that a dimension names.
struct TypeChoice {
  DType type = DType::f32;
  std::string dimension;  // "dtype"; "" if it is fixed
};

struct DescribedTensor {
  std::string name;
  TypeChoice type;
  std::vector<Formula> shape;
  std::set<std::size_t> any;         // dimensions in which a caller's tensor has any size
  bool interleaved = false;          // parts of such a dimension may lie among each other: indices choose them
  std::optional<Formula> when;       // without it the tensor is always there
  std::vector<std::size_t> strides;  // fields of the call, in elements, of the first dimensions
  Role role = Role::input;
  std::int64_t alignment = 16;  // bytes: of its address, and of strides that leave gaps
  bool cold = true;
  std::optional<Formula> cold_if;  // besides
  bool fresh = false;
  Fill::Kind fill = Fill::Kind::normal;
  float scale = 1;
  std::optional<Formula> scale_by;   // in place of the scale
  std::optional<Formula> values;     // of Fill::Kind::zipf
  std::optional<Formula> element;    // of Fill::Kind::integers: the value of element i
  double over = 0;                   // divides such a scale or value, if it is not 0
  std::optional<Formula> total;      // or offsets that ascend to this
  std::vector<std::string> files;    // of Fill::Kind::arrays: one or two, of the kernel's folder
  std::vector<std::string> answers;  // likewise what is right, if files say so
  OutputCheck::Kind check = OutputCheck::Kind::exact;
  Tolerance tolerance;
  std::optional<double> error;             // allowed, as a share of the largest value
  std::optional<Formula> terms, segments;  // of a sum; a segment's length
};

struct DescribedArgument {
  enum class Kind { pointer, i32, i64, f32, f64, map, fields };
  Kind kind = Kind::pointer;
  std::uint8_t bytes = 0;  // of a number
  Name name;
  Name buffer;                        // a tensor or a scratch: of a pointer or a map
  std::optional<std::size_t> tensor;  // its position, if it is one
  std::optional<Formula> value;       // an integer; of a pointer or a map the bytes before it
  double real = 0;                    // of f32 and f64 without a formula ...
  std::optional<std::size_t> field;   // ... or a real field of the call
  TensorMap::Swizzle swizzle = TensorMap::Swizzle::none;
  std::vector<Formula> dims, strides, box;
  std::vector<DescribedArgument> fields;  // of a struct: numbers
};

// A launch, or a memset or a copy to a symbol in front of the launches behind it.
struct DescribedLaunch {
  std::optional<Formula> when;
  bool is_memset = false;
  Name symbol;                   // of a copy, which counts as a memset
  Name buffer;                   // of a memset
  std::optional<Formula> bytes;  // of a memset; all of a tensor if there is none
  std::optional<std::size_t> tensor;
  std::uint8_t value = 0;
  EntryName entry;
  std::vector<Formula> grid, block, cluster;
  std::optional<Formula> shared;
  bool dependent = false;
  std::vector<DescribedArgument> arguments;
};

struct DescribedScratch {
  Name name;
  Formula bytes = 0;
  bool zeroed = false;
};

// A program: a source, what it instantiates, and how it is launched.
struct DescribedProgram {
  std::string source;                  // a file of the kernel's folder
  std::vector<std::string> instances;  // entries with template arguments
  std::vector<DescribedLaunch> launches;
  FormulaRange formulas;
};

// A macro that stands for a type: by the value of a dimension or a parameter, or always the same.
struct DescribedType {
  std::string macro;
  std::string of;  // "problem.dtype", a parameter; "" for none
  std::vector<std::pair<std::string, std::string>> types;
};

struct DescribedMacro {
  std::string name;
  Formula value = 0;
  bool of_configuration = false;
};

struct DescribedRule {
  Formula rule = 0;
  std::string why;
};

struct DescribedCost {
  std::optional<Formula> read_bytes, written_bytes;
  std::vector<std::pair<TypeChoice, Formula>> flops;
};

struct Description {
  std::string file;  // in messages
  std::string name, summary;
  ProblemSchema schema;
  std::vector<std::string> free_dimensions;
  std::vector<Preset> presets;
  CallSchema call;
  Call default_call;
  std::vector<DescribedTensor> tensors;
  std::vector<DescribedScratch> scratch;
  std::vector<DescribedType> types;
  std::vector<DescribedMacro> macros;
  std::vector<DescribedRule> rules;
  DescribedProgram program;
  DescribedProgram reference;
  bool has_baseline = false;               // the reference rounds as a plain implementation would if EXACT is 0
  std::optional<Config> reference_config;  // instead of a reference: another configuration
  bool has_answers = false;                // or files: DescribedTensor::answers of each that is written
  DescribedCost cost;
  SpaceFile space;  // whose vocabulary has the names of dimensions and of the call, too
  std::vector<Expression> formulas;
  FormulaRange of_problem;  // shapes, fills, checks, rules and costs
};

// `text` is that of `file`, which errors name; the kernel must have the folder's name.
Description read_description(std::string text, const std::string& file, const std::string& folder_name);

inline constexpr std::size_t kMaxDescription = std::size_t{1} << 20;        // bytes of kernel.json
inline constexpr std::int64_t kMostTensorElements = std::int64_t{1} << 40;  // of a tensor
inline constexpr std::string_view kElementIndex = "i";                      // in a fill's formula
inline constexpr std::size_t kMaxDescribedNames = 1024;                     // of all kinds, in expressions

// The CUDA name of a type.
std::string_view cuda_type(DType type);
// The tensor's type in a problem.
DType type_of(const TypeChoice& choice, const Assignment& problem);

}  // namespace moetune
