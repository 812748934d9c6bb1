// Functions of the driver that PyTorch does not offer, looked up in the process's libcuda.
#include <dlfcn.h>

#include "handles.h"

namespace moetune::python {
namespace {

template <typename... Arguments>
void call_driver(const char* name, Arguments... arguments) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_LAZY);
  void* const symbol = library != nullptr ? ::dlsym(library, name) : nullptr;
  if (symbol == nullptr) fail(MOETUNE_NO_DRIVER, std::string("the driver has no ") + name);
  if (const int error = reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...); error != 0)
    fail(MOETUNE_CUDA_ERROR, std::string(name) + " failed: " + std::to_string(error));
}

// From now on the calling thread may allocate although another one captures a graph.
void relax_capture() {
  int mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  call_driver("cuThreadExchangeStreamCaptureMode", &mode);
}

// The address of a new stream of the thread's current context, which does not wait for the default stream. PyTorch's
// own are few and shared: one of them may be the stream that captures.
int64_t make_stream() {
  constexpr unsigned kNonBlocking = 1;
  void* stream = nullptr;
  call_driver("cuStreamCreate", &stream, kNonBlocking);
  return reinterpret_cast<int64_t>(stream);
}

}  // namespace
}  // namespace moetune::python

TVM_FFI_DLL_EXPORT_TYPED_FUNC(driver_relax_capture, moetune::python::relax_capture)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(driver_make_stream, moetune::python::make_stream)
