// What programs that link libcuda call by name; they find the stand-in as libcuda.so.1.
#include <cuda.h>

extern "C" CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status);

namespace {

template <typename Function, typename... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  void* function = nullptr;
  const CUresult found = cuGetProcAddress_v2(name, &function, CUDA_VERSION, 0, nullptr);
  if (found != CUDA_SUCCESS) return found;
  return reinterpret_cast<Function*>(function)(arguments...);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default"))) CUresult

EXPORTED cuInit(unsigned flags) { return call<decltype(cuInit)>("cuInit", flags); }
EXPORTED cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", context, device);
}
EXPORTED cuCtxSetCurrent(CUcontext context) { return call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context); }
EXPORTED cuStreamSynchronize(CUstream stream) {
  return call<decltype(cuStreamSynchronize)>("cuStreamSynchronize", stream);
}
EXPORTED cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  return call<decltype(cuMemAlloc)>("cuMemAlloc", address, bytes);
}
EXPORTED cuMemFree(CUdeviceptr address) { return call<decltype(cuMemFree)>("cuMemFree", address); }
EXPORTED cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return call<decltype(cuMemcpyHtoDAsync)>("cuMemcpyHtoDAsync", to, from, bytes, CUstream{});
}
EXPORTED cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return call<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH", to, from, bytes);
}
