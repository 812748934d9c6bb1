// moetune.torch's operators as functions of Python, and what their helper calls.
#include <tvm/ffi/container/array.h>

#include "operator_launch.h"
#include "packed.h"

namespace moetune::python {
namespace {

// "route.out(logits, top_k, ...)" of each overload; operate() takes their places in this list.
ffi::Array<ffi::String> operator_overloads() {
  ffi::Array<ffi::String> texts;
  for (const Overload& overload : overloads()) {
    std::string text = overload.name;
    for (const Parameter& parameter : overload.parameters)
      text += (&parameter == overload.parameters.data() ? "(" : ", ") + std::string(parameter.name);
    texts.push_back(text + ")");
  }
  return texts;
}

double real_of(const Args& args, int32_t index, const char* name) {
  if (const auto value = args[index].as<double>()) return *value;
  return static_cast<double>(args.integer(index, name));
}

// (overload, capturing, host_is_device, *arguments as its schema has them) -> whether it was launched. If not there was
// nothing to do, and outputs that have elements are to be zeros. `host_is_device`: host memory counts as device 0's,
// for the scripted driver of the tests.
ffi::Any operate(const Args& args) {
  constexpr int32_t kFirst = 3;
  const auto index = static_cast<size_t>(args.integer(0, "overload"));
  if (index >= kOverloads) fail(MOETUNE_INVALID_ARGUMENT, "there is no such overload");
  const Overload& overload = overloads()[index];
  const bool host_is_device = args.integer(2, "host_is_device") != 0;
  Given given;
  given.capturing = args.integer(1, "capturing") != 0;
  DLTensor relabelled[MOETUNE_MAX_TENSORS];
  for (int32_t i = 0; i < static_cast<int32_t>(overload.parameters.size()); ++i) {
    const Parameter& parameter = overload.parameters[static_cast<size_t>(i)];
    const ffi::AnyView& value = args[kFirst + i];
    switch (parameter.kind) {
      case Parameter::kTensor:
      case Parameter::kOptionalTensor: {
        const DLTensor*& tensor = given.tensors[parameter.place];
        tensor = tensor_or_null(value, parameter.name);
        if (!host_is_device || tensor == nullptr) break;
        relabelled[parameter.place] = *tensor;
        relabelled[parameter.place].device = {kDLCUDA, 0};
        tensor = &relabelled[parameter.place];
        break;
      }
      case Parameter::kInteger:
      case Parameter::kFlag:
        given.integers[static_cast<size_t>(parameter.place)] = args.integer(kFirst + i, parameter.name);
        break;
      case Parameter::kScale:
        given.scale = real_of(args, kFirst + i, parameter.name);
        break;
      case Parameter::kChoice:
        given.integers[static_cast<size_t>(parameter.place)] =
            choice_of(overload, parameter, std::string(value.cast<ffi::String>()));
    }
  }
  const FamilyKey key = key_of(overload, given);
  given.stream = stream_of(ffi::AnyView(), static_cast<int>(key.device));
  launch_operator(key, given);
  return !overload.of.is_idle(given);
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
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_overloads, mp::operator_overloads)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_set_helper, mp::set_operator_helper)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_forget_families, mp::forget_families)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_add_workspace, mp::add_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_workspace_bytes, mp::workspace_bytes)
