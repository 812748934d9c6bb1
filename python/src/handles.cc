#include "handles.h"

#include <tvm/ffi/extra/c_env_api.h>

namespace moetune::python {
namespace {

constexpr const char* kKinds[] = {"moetune.Error",       "moetune.InvalidArgument", "moetune.NotTuned",
                                  "moetune.UnknownName", "moetune.Unsupported",     "moetune.WrongDevice",
                                  "moetune.BadFile",     "moetune.NoDriver",        "moetune.CudaError",
                                  "moetune.OutOfMemory", "moetune.InternalError"};

}  // namespace

void fail(moetune_status status, const std::string& sentence) {
  const auto index = static_cast<size_t>(status);
  throw ffi::Error(kKinds[index < std::size(kKinds) ? index : 0], sentence, "");
}

const char* c_text(const ffi::String& text, const char* name) {
  const std::string_view view(text.data(), text.size());
  if (const size_t end = view.find('\0'); end != view.npos)
    fail(MOETUNE_INVALID_ARGUMENT,
         std::string(name) + " holds a null character, after '" + std::string(view.substr(0, end)) + "'");
  return text.c_str();
}

const DLTensor* tensor_or_null(const ffi::AnyView& value, const char* name) {
  const TVMFFIAny raw = value.CopyToTVMFFIAny();
  if (raw.type_index == TVMFFITypeIndex::kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(raw.v_obj);
  if (raw.type_index == TVMFFITypeIndex::kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(raw.v_ptr);
  if (raw.type_index == TVMFFITypeIndex::kTVMFFINone) return nullptr;
  throw ffi::Error("TypeError", std::string(name) + " must speak DLPack, or be None", "");
}

Memory memory_of(const ffi::AnyView& value, std::optional<int> device) {
  const DLTensor* tensor = tensor_or_null(value, "workspace");
  if (tensor == nullptr) return {};
  const bool is_on_gpu = tensor->device.device_type == kDLCUDA || tensor->device.device_type == kDLCUDAManaged;
  if (device && (!is_on_gpu || tensor->device.device_id != *device))
    fail(MOETUNE_WRONG_DEVICE, "the workspace is not in the memory of device " + std::to_string(*device));
  int64_t count = 1;
  for (int d = tensor->ndim; d-- > 0;) {
    if (tensor->strides != nullptr && tensor->shape[d] != 1 && tensor->strides[d] != count)
      fail(MOETUNE_INVALID_ARGUMENT, "the workspace is not contiguous");
    count *= tensor->shape[d];
  }
  return {static_cast<char*>(tensor->data) + tensor->byte_offset,
          static_cast<size_t>(count) * tensor->dtype.bits / 8 * tensor->dtype.lanes};
}

void* stream_of(const ffi::AnyView& value, int device) {
  const TVMFFIAny raw = value.CopyToTVMFFIAny();
  if (raw.type_index == TVMFFITypeIndex::kTVMFFINone) return TVMFFIEnvGetStream(kDLCUDA, device);
  if (raw.type_index == TVMFFITypeIndex::kTVMFFIInt) return reinterpret_cast<void*>(raw.v_int64);
  if (raw.type_index == TVMFFITypeIndex::kTVMFFIOpaquePtr) return raw.v_ptr;
  throw ffi::Error("TypeError", "stream must be an address, have __cuda_stream__, or be None", "");
}

// Names the types when the library is loaded, so that Python can give them classes. Their fields are no part of
// TVM-FFI's reflection, whose functions older versions of it lack.
[[maybe_unused]] const int32_t type_indices[] = {RuntimeObj::RuntimeTypeIndex(), FamilyObj::RuntimeTypeIndex(),
                                                 ChoiceObj::RuntimeTypeIndex(), ArgumentsObj::RuntimeTypeIndex()};

}  // namespace moetune::python
