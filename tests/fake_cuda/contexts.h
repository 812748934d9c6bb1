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
// A thread captures a graph, in this mode, until capture_ends(). While it is the global one, only threads whose own
// mode is relaxed may load modules.
void capture_begins(CUstreamCaptureMode mode);
void capture_ends();
CUresult exchange_capture_mode(CUstreamCaptureMode* mode);  // the calling thread's
bool may_load();
bool has_context();  // the calling thread
// A kernel runs in the context that its module was loaded in, here always the machine's.
bool takes_kernels(CUstream stream);

}  // namespace fake_cuda
