// Base of moetune.torch's operators: the arguments of a call, and the decisions that each operator makes itself.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "handles.h"

namespace moetune::python {

class Operator;

inline constexpr DLDataType kI32{kDLInt, 32, 1}, kI64{kDLInt, 64, 1}, kF32{kDLFloat, 32, 1}, kF16{kDLFloat, 16, 1},
    kBf16{kDLBfloat, 16, 1}, kE4m3{kDLFloat8_e4m3fn, 8, 1}, kBool{kDLBool, 8, 1}, kU8{kDLUInt, 8, 1};

// An argument of a schema, and where a call keeps it.
struct Parameter {
  enum Kind {
    kTensor,
    kOptionalTensor,
    kInteger,
    kSymbolicInteger,
    kFlag,
    kScale,
    kChoice,
    // launch's alone: what a kernel reads, what it writes, its name, facts, and the call's numbers.
    kRead,
    kWritten,
    kKernel,
    kFacts,
    kIntegers,
    kReals
  };

  const char* name;
  Kind kind;
  int place = 0;                           // a tensor's slot, or an index of Given::integers
  const char* initial = "";                // the default as a schema writes it; "" for none
  std::span<const char* const> choices{};  // of kChoice: the names that become 0, 1, ...
  int also = -1;                           // of a tensor that is read and written: the slot of the other use
  const char* fact = nullptr;              // of a described kernel: the dimension, or what a flag states

  bool is_tensor() const { return kind == kTensor || kind == kOptionalTensor; }
  bool is_list() const { return kind == kRead || kind == kWritten; }  // of tensors
  bool is_any_list() const { return is_list() || kind == kIntegers || kind == kReals; }
  bool is_text() const { return kind == kChoice || kind == kKernel || kind == kFacts; }
};

// A call of launch, whose tensors are in the order of its lists until they are placed by slot.
struct LaunchedCall {
  std::string_view kernel, facts;
  size_t read = 0, written = 0, integer_count = 0, real_count = 0;
  std::array<int64_t, MOETUNE_MAX_INTEGERS> integers{};
  std::array<double, MOETUNE_MAX_REALS> reals{};

  // Where the next element of a list goes. Throws InvalidArgument for one too many.
  size_t next(Parameter::Kind list);
};

// The arguments of one call. Tensors are the caller's.
struct Given {
  const DLTensor* tensors[MOETUNE_MAX_TENSORS]{};  // by slot; null for none
  LaunchedCall launched;
  std::array<int64_t, 10> integers{};  // an operator's own order; a flag is 0 or 1
  double scale = 1;
  void* stream = nullptr;
  bool capturing = false;
};

// The part of a call that decides its family, and its device.
struct FamilyKey {
  const Operator* of = nullptr;
  int64_t device = 0;
  std::array<int64_t, 16> facts{};  // an operator's own

  bool operator==(const FamilyKey&) const = default;

  template <typename Facts>
  void set(const Facts& own) {
    static_assert(sizeof(Facts) <= sizeof facts && std::is_trivially_copyable_v<Facts>);
    std::memcpy(facts.data(), &own, sizeof own);
  }
  template <typename Facts>
  Facts as() const {
    Facts own;
    std::memcpy(&own, facts.data(), sizeof own);
    return own;
  }
};

// A tensor that a call must have, or one that the operator makes.
struct TensorShape {
  int slot;
  const char* name;
  DLDataType type;  // bytes will do for bool
  int rank;
  std::array<int64_t, MOETUNE_MAX_RANK> sizes;
  bool is_sliced = false;  // the caller's may be a slice of a wider tensor: the last dimension alone is contiguous

  std::span<const int64_t> shape() const { return {sizes.data(), static_cast<size_t>(rank)}; }
};

struct TensorShapes {
  std::array<TensorShape, MOETUNE_MAX_TENSORS> list{};
  int count = 0;

  void add(const TensorShape& shape) { list[static_cast<size_t>(count++)] = shape; }
  const TensorShape* begin() const { return list.data(); }
  const TensorShape* end() const { return list.data() + count; }
};

// Free dimensions, in the kernel's order.
struct FreeExtents {
  std::array<int64_t, MOETUNE_MAX_EXTENTS> values{};
  size_t count = 0;
};

struct Overload;

// The part of a call that its shapes and options decide, found once for all calls that are alike.
struct CallPlan {
  FamilyKey key;
  FreeExtents extents;
  bool is_idle = false;           // there is nothing to launch, and outputs that have elements are zeros
  TensorShapes outputs;           // that the functional overload returns, in this order
  std::string problem;            // for `moetune search --problem`, which tunes this call
  const char* options = nullptr;  // for bind
  std::array<int8_t, MOETUNE_MAX_TENSORS> slots;  // of a listed tensor
  size_t listed = 0;
  // Once the call was bound:
  bool is_bound = false;
  moetune_arguments arguments;
  FreeExtents most;
};

// Stateless; thread-safe. Messages begin with the operator's name.
class Operator {
 public:
  virtual ~Operator() = default;

  virtual const char* name() const = 0;    // "route"
  virtual const char* kernel() const = 0;  // "router"

  // Fills in all that follows; a described kernel's operator has this alone. Throws as key().
  virtual void plan(const Overload& overload, const Given& given, CallPlan& plan) const;
  // The call as moetune_show_call reads it; null unless a kernel.json describes the kernel. Fills the plan's slots.
  virtual std::unique_ptr<moetune_shown_call> show(const Overload&, const Given&, CallPlan&) const { return nullptr; }

  // Throws InvalidArgument for arguments that no family takes, by shapes, strides, types and options alone: tensors may
  // be fake ones. Outputs that the operator makes may be missing yet.
  virtual FamilyKey key(const Given&) const { return {}; }
  // `name=value` pairs for Runtime.family.
  virtual std::string specialization(const FamilyKey& key) const = 0;
  // The text for `moetune search --problem` that tunes this call.
  virtual std::string problem(const Given&, const FamilyKey&) const { return {}; }
  virtual FreeExtents extents(const Given&) const { return {}; }
  // The shapes that the functional overload returns, in this order.
  virtual TensorShapes outputs(const Given&, const FamilyKey&) const { return {}; }

  // Whether there is nothing to launch, and outputs that have elements are zeros.
  virtual bool is_idle(const Given&) const { return false; }
  virtual const char* bind_options(const Given&) const { return nullptr; }
  // Fields of the call that tensors do not tell.
  virtual void complete(const Given&, moetune_arguments&) const {}
  // `most` are bind's extents.
  virtual moetune_choice choose(const Given& given, moetune_family* family, const FreeExtents& most) const;

  // Throws for a status that a function of moetune.h returned just now. Its sentence is put in the operator's terms.
  void check(moetune_status status) const {
    if (status != MOETUNE_OK) [[unlikely]]
      fail_with(status);
  }

 protected:
  struct OtherName {
    std::string_view kernels, own;
  };
  // Tensors and dimensions that moetune.h and the kernel call otherwise.
  virtual std::span<const OtherName> other_names() const { return {}; }

  [[noreturn]] void refuse(const std::string& sentence) const;
  const DLTensor& tensor(const Given& given, int slot, const char* name) const;  // throws if it is missing
  // Throws unless the call has the tensor in this shape and type.
  void require(const Given& given, const TensorShape& expected) const;
  void require_shape(const DLTensor& found, const TensorShape& expected) const;  // and type
  // Checks a tensor that the call may lack.
  void require_if_given(const Given& given, const TensorShape& expected) const {
    if (given.tensors[expected.slot] != nullptr) require(given, expected);
  }
  void require_type(const DLTensor& found, const char* name, DLDataType type) const;
  void require_side_by_side(const DLTensor& found, const char* name) const;  // the last dimension's elements
  void require_at_least(int64_t least, const char* name, int64_t value) const;

 private:
  [[noreturn]] void fail_with(moetune_status status) const;
};

// Numbers for FamilyKey::facts, equal for equal types.
inline int64_t number_of(DLDataType type) { return type.code << 24 | type.bits << 16 | type.lanes; }
// "bf16"
std::string type_text(DLDataType type);

// One schema of an operator.
struct Overload {
  std::string name;  // "route.out"
  const Operator& of;
  std::vector<Parameter> parameters;  // in the schema's order; the first is a tensor, or launch's kernel
  bool makes_outputs;
  size_t tensor_count = 0;  // the slots of its tensors are less
  std::string schema;       // "(Tensor logits, int top_k, ...) -> ()"
};

constexpr size_t kOverloads = 65;
const std::vector<Overload>& overloads();  // as many

// The plan of a call, whose tensors are by slot from then on. Throws WrongDevice unless they are in the memory of one
// GPU. The thread's; stays for a while, until 64 other calls were planned.
CallPlan& plan_of(const Overload& overload, Given& given);

// The error for a tensor that requires a gradient, in grad mode.
std::string gradient_sentence(const Overload& overload, const Parameter& parameter);

// The place of a name among a parameter's choices. Throws InvalidArgument, naming them.
int64_t choice_of(const Overload& overload, const Parameter& parameter, std::string_view name);

}  // namespace moetune::python
