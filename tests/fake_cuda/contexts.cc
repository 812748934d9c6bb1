#include "tests/fake_cuda/contexts.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

thread_local CUcontext current_context = nullptr;

struct FakeStream {
  CUcontext context = nullptr;
  bool alive = false;
};
std::deque<FakeStream> streams;
std::mutex mutex;

FakeStream* find(CUstream stream) {
  const auto found = std::find_if(streams.begin(), streams.end(), [&](const FakeStream& known) {
    return &known == reinterpret_cast<void*>(stream) && known.alive;
  });
  return found != streams.end() ? &*found : nullptr;
}

// Null for what is no stream.
CUcontext context_of(CUstream stream) {
  if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return current_context;
  const std::lock_guard lock(mutex);
  const FakeStream* const known = find(stream);
  return known != nullptr ? known->context : nullptr;
}

CUresult sticky() { return static_cast<CUresult>(machine.sticky); }

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::atomic<bool> captures_globally{false};

}  // namespace

CUresult ctx_set_current(CUcontext context) {
  current_context = context;
  return sticky();
}

CUresult ctx_get_current(CUcontext* context) {
  *context = current_context;
  return sticky();
}

CUresult ctx_get_device(CUdevice* device) {
  *device = 0;
  return current_context != nullptr ? sticky() : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult stream_create(CUstream* stream, unsigned) {
  const std::lock_guard lock(mutex);
  auto place = std::find_if(streams.begin(), streams.end(), [](const FakeStream& one) { return !one.alive; });
  if (place == streams.end()) place = streams.emplace(streams.end());
  *place = {current_context, true};
  *stream = reinterpret_cast<CUstream>(&*place);
  return sticky();
}

CUresult stream_destroy(CUstream stream) {
  const std::lock_guard lock(mutex);
  if (FakeStream* const known = find(stream)) known->alive = false;
  return sticky();
}

CUresult stream_get_ctx(CUstream stream, CUcontext* context) {
  if (machine.sticky != 0) return sticky();
  *context = context_of(stream);
  return *context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult exchange_capture_mode(CUstreamCaptureMode* mode) {
  *mode = std::exchange(capture_mode, *mode);
  return sticky();
}

void capture_begins(CUstreamCaptureMode mode) { captures_globally = mode == CU_STREAM_CAPTURE_MODE_GLOBAL; }
void capture_ends() { captures_globally = false; }
bool may_load() { return !captures_globally || capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED; }
bool has_context() { return current_context != nullptr; }

bool takes_kernels(CUstream stream) {
  return stream == nullptr || context_of(stream) == reinterpret_cast<CUcontext>(&machine);
}

}  // namespace fake_cuda
