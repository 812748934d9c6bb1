// moetune.torch's operators as functions of Python, and what their helper calls.
#include <tvm/ffi/container/array.h>

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
  explicit PythonCall(const Args& args) : overload_(overload_at(args.integer(0, "overload"))) {
    given_.capturing = args.integer(1, "capturing") != 0;
    const bool host_is_device = args.integer(2, "host_is_device") != 0;
    int32_t at = 3;
    for (const Parameter& parameter : overload_.parameters) {
      read(args, at++, parameter, host_is_device);
      if (parameter.also >= 0) given_.tensors[parameter.also] = given_.tensors[parameter.place];
    }
  }
  PythonCall(const PythonCall&) = delete;

  FamilyKey key() const { return key_of(overload_, given_); }

  bool run() {
    const FamilyKey found = key();
    given_.stream = stream_of(ffi::AnyView(), static_cast<int>(found.device));
    launch_operator(found, given_);
    return !overload_.of.is_idle(given_);
  }

 private:
  void read(const Args& args, int32_t at, const Parameter& parameter, bool host_is_device) {
    const auto place = static_cast<size_t>(parameter.place);
    switch (parameter.kind) {
      case Parameter::kTensor:
      case Parameter::kOptionalTensor:
        given_.tensors[place] = tensor_or_null(args[at], parameter.name);
        if (!host_is_device || given_.tensors[place] == nullptr) break;
        relabelled_[place] = *given_.tensors[place];
        relabelled_[place].device = {kDLCUDA, 0};
        given_.tensors[place] = &relabelled_[place];
        break;
      case Parameter::kInteger:
      case Parameter::kSymbolicInteger:
      case Parameter::kFlag:
        given_.integers[place] = args.integer(at, parameter.name);
        break;
      case Parameter::kScale:
        given_.scale = real_of(args, at, parameter.name);
        break;
      case Parameter::kChoice:
        given_.integers[place] = choice_of(overload_, parameter, std::string(args[at].cast<ffi::String>()));
    }
  }

  const Overload& overload_;
  Given given_;
  DLTensor relabelled_[MOETUNE_MAX_TENSORS];
};

// Whether it was launched. If not there was nothing to do, and outputs that have elements are to be zeros.
ffi::Any operate(const Args& args) { return PythonCall(args).run(); }

// Throws what operate() would for arguments that no family takes.
ffi::Any operator_check(const Args& args) {
  PythonCall(args).key();
  return nullptr;
}

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
  return static_cast<int64_t>(
      OperatorTable::instance().workspace(device, reinterpret_cast<void*>(stream)).bytes);
}

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

MOETUNE_EXPORT_PACKED(operate, mp::operate)
MOETUNE_EXPORT_PACKED(operator_check, mp::operator_check)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_refuse_gradient, mp::refuse_gradient)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_overloads, mp::operator_overloads)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_set_helper, mp::set_operator_helper)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_forget_families, mp::forget_families)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_add_workspace, mp::add_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_workspace_bytes, mp::workspace_bytes)
