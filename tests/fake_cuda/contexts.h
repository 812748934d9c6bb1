// The scripted driver's contexts, current by thread, and its streams: each belongs to the context that was current
// when it was made, and the handle of a destroyed one is used again, as the driver does. Thread-safe.
#pragma once

#include <cuda.h>

namespace fake_cuda {

CUresult ctx_set_current(CUcontext context);
CUresult ctx_get_current(CUcontext* context);
CUresult ctx_get_device(CUdevice* device);

CUresult stream_create(CUstream* stream, unsigned flags);
CUresult stream_destroy(CUstream stream);
CUresult stream_get_ctx(CUstream stream, CUcontext* context);
// A kernel runs in the context that its module was loaded in, here always the machine's.
bool takes_kernels(CUstream stream);

}  // namespace fake_cuda
