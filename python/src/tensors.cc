// Tensors over memory that no framework describes: an address, or another element type than the array states.
#include <tvm/ffi/container/shape.h>

#include "packed.h"

namespace moetune::python {
namespace {

// Borrows the memory, and keeps its owner.
struct Borrowed {
  void* address;
  ffi::Any owner;
  void AllocData(DLTensor* tensor) { tensor->data = address; }
  void FreeData(DLTensor*) {}
};

// `owner` is anything that must outlive the tensor; strides in elements, none for contiguous.
ffi::Tensor from_address(int64_t address, const ffi::Shape& shape, DLDataType dtype, const ffi::Shape& strides,
                         int64_t device, ffi::Any owner) {
  if (!strides.empty() && strides.size() != shape.size())
    fail(MOETUNE_INVALID_ARGUMENT, "shape and strides differ in length");
  for (const int64_t size : shape) {
    if (size < 0) fail(MOETUNE_INVALID_ARGUMENT, "a shape has no negative sizes");
  }
  if (device < 0 || device > INT32_MAX) fail(MOETUNE_INVALID_ARGUMENT, "no device has such a number");
  const Borrowed memory{reinterpret_cast<void*>(address), std::move(owner)};
  const DLDevice place{kDLCUDA, static_cast<int32_t>(device)};
  if (strides.empty()) return ffi::Tensor::FromNDAlloc(memory, shape, dtype, place);
  return ffi::Tensor::FromNDAllocStrided(memory, shape, strides, dtype, place);
}

// A tensor without memory, for a check of a call whose tensors are fake ones.
ffi::Tensor operator_tensor(const ffi::Shape& shape, const ffi::Shape& strides, DLDataType dtype, bool is_on_gpu,
                            int64_t device) {
  const DLDevice place{is_on_gpu ? kDLCUDA : kDLCPU, static_cast<int32_t>(device)};
  return ffi::Tensor::FromNDAllocStrided(Borrowed{nullptr, {}}, shape, strides, dtype, place);
}

}  // namespace
}  // namespace moetune::python

TVM_FFI_DLL_EXPORT_TYPED_FUNC(from_address, moetune::python::from_address)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(operator_tensor, moetune::python::operator_tensor)
