// Exported functions that take a varying number of arguments, which TVM_FFI_DLL_EXPORT_TYPED_FUNC cannot have.
#pragma once

#include "handles.h"

namespace moetune::python {

class Args {
 public:
  Args(const TVMFFIAny* values, int32_t count)
      : values_(reinterpret_cast<const ffi::AnyView*>(values)), count_(count) {}

  int32_t size() const { return count_; }
  const ffi::AnyView& operator[](int32_t index) const {
    if (index >= count_) throw ffi::Error("TypeError", "an argument is missing", "");
    return values_[index];
  }

  // A pointer that lives as long as the call, or TypeError naming what was wanted.
  template <typename Object>
  const Object& object(int32_t index, const char* what) const {
    if (const auto* found = (*this)[index].as<Object>()) return *found;
    throw ffi::Error("TypeError", std::string("argument ") + std::to_string(index) + " must be a moetune." + what, "");
  }
  int64_t integer(int32_t index, const char* name) const {
    const TVMFFIAny raw = (*this)[index].CopyToTVMFFIAny();
    if (raw.type_index == TVMFFITypeIndex::kTVMFFIInt || raw.type_index == TVMFFITypeIndex::kTVMFFIBool)
      return raw.v_int64;
    throw ffi::Error("TypeError", std::string(name) + " must be an int", "");
  }

 private:
  const ffi::AnyView* values_;
  int32_t count_;
};

}  // namespace moetune::python

#define MOETUNE_EXPORT_PACKED(name, function)                                                        \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##name(void*, const TVMFFIAny* args, int32_t num_args, \
                                                     TVMFFIAny* result) {                            \
    TVM_FFI_SAFE_CALL_BEGIN();                                                                       \
    *reinterpret_cast<::tvm::ffi::Any*>(result) = function(::moetune::python::Args(args, num_args)); \
    TVM_FFI_SAFE_CALL_END();                                                                         \
  }
