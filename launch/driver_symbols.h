// The driver API's entry points, and what their results mean: the one file that includes cuda.h. For the
// sources of launch/ alone; others see launch/driver.h. cu is filled once, by initialize(), before any thread
// uses it.
#pragma once

#include <cuda.h>

#include <string>

namespace moetune::cuda {

struct Functions {
  // clang-format would indent this list further at every run.
// clang-format off
#define MOETUNE_CUDA_FUNCTIONS(X)                                                                 \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount)       \
  X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem)                   \
  X(cuDeviceGetPCIBusId) X(cuDeviceGetUuid)                                                       \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)                                        \
  X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuStreamGetCtx)                        \
  X(cuFuncGetAttribute) X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree)               \
  X(cuMemHostAlloc) X(cuMemHostGetDevicePointer) X(cuMemFreeHost) X(cuMemcpyDtoDAsync)            \
  X(cuMemsetD8Async) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH) X(cuStreamCreate) X(cuStreamDestroy)    \
  X(cuStreamSynchronize) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuEventCreate)           \
  X(cuThreadExchangeStreamCaptureMode)                                                            \
  X(cuEventDestroy) X(cuEventRecord) X(cuEventElapsedTime) X(cuModuleLoadData) X(cuModuleUnload)  \
  X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuGraphInstantiateWithFlags) \
  X(cuGraphDestroy) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy)                       \
  X(cuTensorMapEncodeTiled) X(cuModuleGetGlobal) X(cuDeviceCanAccessPeer)                           \
  X(cuCtxEnablePeerAccess) X(cuMemcpyAsync) X(cuMemHostRegister) X(cuMemHostUnregister)
// clang-format on
#define X(name) decltype(&::name) name = nullptr;
  MOETUNE_CUDA_FUNCTIONS(X)
#undef X
};

extern Functions cu;

const char* error_name(CUresult result);

// Throws CudaError, naming the call, for anything but success.
void check(CUresult result, const std::string& call);

}  // namespace moetune::cuda
