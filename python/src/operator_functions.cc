// moetune.torch's operators as functions of Python, and what their helper calls.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>

#include <deque>

#include "operator_launch.h"
#include "packed.h"

namespace moetune::python {
namespace {

// "route.out(Tensor logits, int top_k, ...) -> ()" of each overload; operate() takes their places in this list.
ffi::Array<ffi::String> operator_overloads() {
  ffi::Array<ffi::String> texts;
  for (const Overload& overload : overloads()) texts.push_back(overload.name + overload.schema);
  return texts;
}

const Overload& overload_at(int64_t index) {
  if (index >= 0 && index < static_cast<int64_t>(kOverloads)) return overloads()[static_cast<size_t>(index)];
  fail(MOETUNE_INVALID_ARGUMENT, "there is no such overload");
}

double real_of(const Args& args, int32_t index, const char* name) {
  if (const auto value = args[index].as<double>()) return *value;
  return static_cast<double>(args.integer(index, name));
}

// A call as Python hands it over: (overload, capturing, host_is_device, *arguments as its schema has them).
// `host_is_device`: host memory counts as device 0's, for the scripted driver of the tests.
class PythonCall {
 public:
  explicit PythonCall(const Args& args)
      : overload_(overload_at(args.integer(0, "overload"))), host_is_device_(args.integer(2, "host_is_device") != 0) {
    given_.capturing = args.integer(1, "capturing") != 0;
    int32_t at = 3;
    for (const Parameter& parameter : overload_.parameters) {
      read(args[at], args, at, parameter);
      ++at;
      if (parameter.also >= 0) given_.tensors[parameter.also] = given_.tensors[parameter.place];
    }
  }
  PythonCall(const PythonCall&) = delete;

  CallPlan& plan() { return plan_of(overload_, given_); }

  bool run() {
    CallPlan& found = plan();
    given_.stream = stream_of(ffi::AnyView(), static_cast<int>(found.key.device));
    launch_planned(found, given_);
    return !found.is_idle;
  }

  // The outputs that a described kernel makes: type and sizes of each, and for each size tensor * 8 + dimension
  // of an argument that has it, or -1; and in the same way which arguments' sizes are compiled in. None otherwise.
  ffi::Any outputs() {
    CallPlan found;
    const auto call = overload_.of.show(overload_, given_, found);
    if (call == nullptr) return nullptr;
    std::array<int64_t, 64> places;  // of a dimension of the problem
    places.fill(-1);
    ffi::Array<int64_t> fixed;
    const size_t tensors = overload_.tensor_count + given_.launched.read;
    for (size_t at = 0; at < tensors; ++at) {
      const moetune_slot& slot = call->slots[found.listed > 0 ? static_cast<size_t>(found.slots[at]) : at];
      if (given_.tensors[at] == nullptr) continue;
      for (int d = 0; d < slot.rank; ++d) {
        const int32_t dimension = slot.dimensions[d];
        const int64_t place = argument_of(at) * 8 + d;
        if (dimension >= 0 && places[static_cast<size_t>(dimension)] < 0)
          places[static_cast<size_t>(dimension)] = place;
        if (dimension == -1 || dimension >= MOETUNE_MAX_EXTENTS) fixed.push_back(place);
      }
    }
    ffi::Array<ffi::Any> all;
    CallPlan planned;
    overload_.of.plan(overload_, given_, planned);
    for (const TensorShape& made : planned.outputs) {
      const moetune_slot& slot = call->slots[made.slot];
      ffi::Array<int64_t> from;
      for (int d = 0; d < made.rank; ++d)
        from.push_back(slot.dimensions[d] < 0 ? -1 : places[static_cast<size_t>(slot.dimensions[d])]);
      all.push_back(
          ffi::Array<ffi::Any>{made.type, ffi::Shape(made.sizes.begin(), made.sizes.begin() + made.rank), from});
    }
    return ffi::Array<ffi::Any>{all, fixed};
  }

 private:
  void read(const ffi::AnyView& value, const Args& args, int32_t at, const Parameter& parameter) {
    const auto place = static_cast<size_t>(parameter.place);
    switch (parameter.kind) {
      case Parameter::kTensor:
      case Parameter::kOptionalTensor:
        return take(place, value, parameter.name);
      case Parameter::kInteger:
      case Parameter::kSymbolicInteger:
      case Parameter::kFlag:
        given_.integers[place] = args.integer(at, parameter.name);
        return;
      case Parameter::kScale:
        given_.scale = real_of(args, at, parameter.name);
        return;
      case Parameter::kChoice:
        given_.integers[place] = choice_of(overload_, parameter, std::string(value.cast<ffi::String>()));
        return;
      case Parameter::kKernel:
      case Parameter::kFacts:
        texts_.push_back(value.cast<ffi::String>());
        (parameter.kind == Parameter::kKernel ? given_.launched.kernel : given_.launched.facts) =
            std::string_view(texts_.back().data(), texts_.back().size());
        return;
      default:
        kept_.push_back(value.cast<ffi::Array<ffi::Any>>());
        for (const ffi::Any& element : kept_.back()) {
          if (parameter.is_list())
            take(given_.launched.next(parameter.kind), element, parameter.name);
          else if (parameter.kind == Parameter::kIntegers)
            given_.launched.integers[given_.launched.next(parameter.kind)] = element.cast<int64_t>();
          else
            given_.launched.reals[given_.launched.next(parameter.kind)] = element.cast<double>();
        }
    }
  }

  void take(size_t place, const ffi::AnyView& value, const char* name) {
    given_.tensors[place] = tensor_or_null(value, name);
    if (!host_is_device_ || given_.tensors[place] == nullptr) return;
    relabelled_[place] = *given_.tensors[place];
    relabelled_[place].device = {kDLCUDA, 0};
    given_.tensors[place] = &relabelled_[place];
  }

  // The position of a slot's tensor among all tensors of the schema; that of a listed one is its own.
  int64_t argument_of(size_t slot) const {
    int64_t position = 0;
    for (const Parameter& parameter : overload_.parameters) {
      for (const int own : {parameter.place, parameter.also})
        if (parameter.is_tensor() && own == static_cast<int>(slot)) return position;
      position += parameter.is_tensor();
    }
    return static_cast<int64_t>(slot);
  }

  const Overload& overload_;
  const bool host_is_device_;
  Given given_;
  DLTensor relabelled_[MOETUNE_MAX_TENSORS];
  std::deque<ffi::String> texts_;
  std::deque<ffi::Array<ffi::Any>> kept_;
};

// Whether it was launched. If not there was nothing to do, and outputs that have elements are to be zeros.
ffi::Any operate(const Args& args) { return PythonCall(args).run(); }

// Throws what operate() would for arguments that no family takes.
ffi::Any operator_check(const Args& args) {
  PythonCall(args).plan();
  return nullptr;
}

ffi::Any operator_outputs(const Args& args) { return PythonCall(args).outputs(); }

// Throws the error for an overload's argument, by its place, that requires a gradient.
void refuse_gradient(int64_t overload, int64_t place) {
  const Overload& called = overload_at(overload);
  fail(MOETUNE_INVALID_ARGUMENT, gradient_sentence(called, called.parameters[static_cast<size_t>(place)]));
}

void forget_families(int64_t device) { OperatorTable::instance().forget(device); }

// (device, stream, tensor)
void add_workspace(int64_t device, int64_t stream, const ffi::Tensor& tensor) {
  OperatorTable::instance().add_workspace(device, reinterpret_cast<void*>(stream), tensor);
}

int64_t workspace_bytes(int64_t device, int64_t stream) {
  return static_cast<int64_t>(OperatorTable::instance().workspace(device, reinterpret_cast<void*>(stream)).bytes);
}

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

MOETUNE_EXPORT_PACKED(operate, mp::operate)
MOETUNE_EXPORT_PACKED(operator_check, mp::operator_check)
MOETUNE_EXPORT_PACKED(operator_outputs, mp::operator_outputs)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_refuse_gradient, mp::refuse_gradient)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_overloads, mp::operator_overloads)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_set_helper, mp::set_operator_helper)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_forget_families, mp::forget_families)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_add_workspace, mp::add_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_workspace_bytes, mp::workspace_bytes)
