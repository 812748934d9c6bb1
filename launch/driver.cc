#include "launch/driver.h"

#include <algorithm>

#include "kernels/entry_name.h"
#include "launch/driver_symbols.h"

namespace moetune::cuda {
namespace {

CUstream raw(StreamRef stream) { return static_cast<CUstream>(stream.raw); }

}  // namespace

// Destruction ignores errors: after a sticky one, every call fails and the process is about to end.
void MemoryTraits::destroy(Raw raw) { cu.cuMemFree(raw); }
void HostMemoryTraits::destroy(Raw raw) { cu.cuMemFreeHost(raw); }
void PinnedTraits::destroy(Raw raw) { cu.cuMemHostUnregister(raw); }
void StreamTraits::destroy(Raw raw) { cu.cuStreamDestroy(static_cast<CUstream>(raw)); }
void EventTraits::destroy(Raw raw) { cu.cuEventDestroy(static_cast<CUevent>(raw)); }
void ModuleTraits::destroy(Raw raw) { cu.cuModuleUnload(static_cast<CUmodule>(raw)); }
void GraphTraits::destroy(Raw raw) { cu.cuGraphExecDestroy(static_cast<CUgraphExec>(raw)); }

Context::Context(int ordinal, Current current) : device_(ordinal) {
  CUcontext context = nullptr;
  check(cu.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
  context_ = context;
  if (current == Current::no) return;
  try {
    make_current();
  } catch (...) {
    cu.cuDevicePrimaryCtxRelease(device_);
    throw;
  }
}

Context::~Context() { cu.cuDevicePrimaryCtxRelease(device_); }

void Context::make_current() const { check(cu.cuCtxSetCurrent(static_cast<CUcontext>(context_)), "cuCtxSetCurrent"); }

bool Context::is_current() const {
  CUcontext current = nullptr;
  return cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context_;
}

bool Context::owns(StreamRef stream) const {
  if (stream.raw == nullptr) return true;
  CUcontext context = nullptr;
  const CUresult result = cu.cuStreamGetCtx(raw(stream), &context);
  if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_CONTEXT ||
      result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return false;
  check(result, "cuStreamGetCtx");
  return context == context_;
}

CurrentContext::CurrentContext(const Context& context) {
  CUcontext before = nullptr;
  check(cu.cuCtxGetCurrent(&before), "cuCtxGetCurrent");
  before_ = before;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  check(cu.cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  capture_mode_ = mode;
  try {
    context.make_current();
  } catch (...) {
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    throw;
  }
}

CurrentContext::~CurrentContext() {
  cu.cuCtxSetCurrent(static_cast<CUcontext>(before_));
  auto mode = static_cast<CUstreamCaptureMode>(capture_mode_);
  cu.cuThreadExchangeStreamCaptureMode(&mode);
}

bool can_access(int from, int to) {
  int can = 0;
  check(cu.cuDeviceCanAccessPeer(&can, from, to), "cuDeviceCanAccessPeer");
  return can != 0;
}

void open_access_to(const Context& peer) {
  const CUresult result = cu.cuCtxEnablePeerAccess(static_cast<CUcontext>(peer.handle()), 0);
  if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) check(result, "cuCtxEnablePeerAccess");
}

std::optional<int> current_device() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (cu.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) return std::nullopt;
  check(cu.cuCtxGetDevice(&device), "cuCtxGetDevice");
  return device;
}

bool Context::alive() const { return cu.cuCtxSynchronize() == CUDA_SUCCESS; }

std::int64_t Context::free_memory() const {
  std::size_t free = 0, total = 0;
  check(cu.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return static_cast<std::int64_t>(free);
}

Memory allocate(std::int64_t bytes) {
  CUdeviceptr address = 0;
  check(cu.cuMemAlloc(&address, static_cast<std::size_t>(bytes)), "cuMemAlloc of " + std::to_string(bytes) + " bytes");
  return Memory(address);
}

HostMemory allocate_on_host(std::int64_t bytes) {
  void* memory = nullptr;
  check(cu.cuMemHostAlloc(&memory, static_cast<std::size_t>(bytes), CU_MEMHOSTALLOC_DEVICEMAP),
        "cuMemHostAlloc of " + std::to_string(bytes) + " bytes");
  return HostMemory(memory);
}

Address device_address(const HostMemory& memory) {
  CUdeviceptr address = 0;
  check(cu.cuMemHostGetDevicePointer(&address, memory.get(), 0), "cuMemHostGetDevicePointer");
  return address;
}

Pinned pin(std::span<std::uint8_t> memory) {
  check(cu.cuMemHostRegister(memory.data(), memory.size(), 0),
        "cuMemHostRegister of " + std::to_string(memory.size()) + " bytes");
  return Pinned(memory.data());
}

void set_bytes(Address address, std::uint8_t value, std::int64_t bytes, StreamRef stream) {
  if (bytes > 0)
    check(cu.cuMemsetD8Async(address, value, static_cast<std::size_t>(bytes), raw(stream)), "cuMemsetD8Async");
}

void copy_to_device(Address to, std::span<const std::uint8_t> bytes, const Stream& stream) {
  // cuMemcpyHtoD may return while the last of a pageable source is still on its way to the device, and
  // kernels on a non-blocking stream would not wait for it: the copy belongs to the stream.
  if (!bytes.empty()) check(cu.cuMemcpyHtoDAsync(to, bytes.data(), bytes.size(), raw(stream)), "cuMemcpyHtoDAsync");
  synchronize(stream);
}

void copy_on_device(Address to, Address from, std::int64_t bytes, StreamRef stream) {
  if (bytes > 0)
    check(cu.cuMemcpyDtoDAsync(to, from, static_cast<std::size_t>(bytes), raw(stream)), "cuMemcpyDtoDAsync");
}

void copy(Address to, Address from, std::int64_t bytes, StreamRef stream) {
  check(cu.cuMemcpyAsync(to, from, static_cast<std::size_t>(bytes), raw(stream)), "cuMemcpyAsync");
}

void copy_to_host(std::span<std::uint8_t> to, Address from, const Stream& stream) {
  synchronize(stream);
  if (!to.empty()) check(cu.cuMemcpyDtoH(to.data(), from, to.size()), "cuMemcpyDtoH");
}

Stream make_stream() {
  CUstream stream = nullptr;
  check(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return Stream(stream);
}

void synchronize(const Stream& stream) { check(cu.cuStreamSynchronize(raw(stream)), "cuStreamSynchronize"); }

Event make_event() {
  CUevent event = nullptr;
  check(cu.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
  return Event(event);
}

void record(const Event& event, const Stream& stream) {
  check(cu.cuEventRecord(static_cast<CUevent>(event.get()), raw(stream)), "cuEventRecord");
}

double elapsed_us(const Event& begin, const Event& end) {
  float milliseconds = 0;
  check(cu.cuEventElapsedTime(&milliseconds, static_cast<CUevent>(begin.get()), static_cast<CUevent>(end.get())),
        "cuEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

Module load_module(std::span<const std::uint8_t> cubin) {
  CUmodule module = nullptr;
  check(cu.cuModuleLoadData(&module, cubin.data()), "cuModuleLoadData");
  return Module(module);
}

std::set<std::string> mangled_in(std::span<const std::uint8_t> cubin) {
  return mangled_symbols({reinterpret_cast<const char*>(cubin.data()), cubin.size()});
}

Function find_function(const Module& module, const std::string& entry, const std::set<std::string>& mangled) {
  CUfunction function = nullptr;
  const auto raw_module = static_cast<CUmodule>(module.get());
  CUresult result = cu.cuModuleGetFunction(&function, raw_module, entry.c_str());
  if (const auto found = find_mangled(mangled, entry); result == CUDA_ERROR_NOT_FOUND && found != mangled.end())
    result = cu.cuModuleGetFunction(&function, raw_module, found->c_str());
  check(result, "cuModuleGetFunction(" + entry + ")");
  return function;
}

Address find_variable(const Module& module, const std::string& name, std::int64_t bytes) {
  CUdeviceptr address = 0;
  std::size_t room = 0;
  check(cu.cuModuleGetGlobal(&address, &room, static_cast<CUmodule>(module.get()), name.c_str()),
        "cuModuleGetGlobal(" + name + ")");
  if (static_cast<std::uint64_t>(bytes) <= room) return address;
  throw CudaError(CudaError::Kind::request, "the variable '" + name + "' has " + std::to_string(room) +
                                                " bytes; the plan copies " + std::to_string(bytes) + " to it");
}

void permit_all(Function function, const std::string& entry, const DeviceLimits& limits) {
  const auto raw_function = static_cast<CUfunction>(function);
  int fixed = 0;
  check(cu.cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, raw_function),
        "cuFuncGetAttribute of " + entry);
  LaunchShape widest;
  widest.entry = entry;
  widest.dynamic_shared = static_cast<std::uint32_t>(std::max<std::int64_t>(0, limits.shared_per_block - fixed));
  if (limits.compute_capability >= 90) widest.cluster = {16, 1, 1};
  permit(function, widest);
}

void permit(Function function, const LaunchShape& launch) {
  const auto set = [&](CUfunction_attribute which, int value, const char* what) {
    check(cu.cuFuncSetAttribute(static_cast<CUfunction>(function), which, value),
          std::string("cuFuncSetAttribute(") + what + ", " + std::to_string(value) + ") of " + launch.entry.text());
  };
  if (launch.dynamic_shared > 0) {
    set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(launch.dynamic_shared),
        "dynamic shared memory");
  }
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 8) {
    set(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, "clusters past 8");
  }
}

void launch(Function function, const LaunchShape& shape, void** parameters, StreamRef stream) {
  std::array<CUlaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (shape.cluster != Dim3{1, 1, 1}) {
    CUlaunchAttribute& cluster = attributes[count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {shape.cluster[0], shape.cluster[1], shape.cluster[2]};
  }
  if (shape.programmatic_dependent) {
    CUlaunchAttribute& programmatic = attributes[count++];
    programmatic.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    programmatic.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = shape.grid[0];
  config.gridDimY = shape.grid[1];
  config.gridDimZ = shape.grid[2];
  config.blockDimX = shape.block[0];
  config.blockDimY = shape.block[1];
  config.blockDimZ = shape.block[2];
  config.sharedMemBytes = shape.dynamic_shared;
  config.hStream = raw(stream);
  config.attrs = attributes.data();
  config.numAttrs = count;
  const CUresult result = cu.cuLaunchKernelEx(&config, static_cast<CUfunction>(function), parameters, nullptr);
  if (result != CUDA_SUCCESS) check(result, "cuLaunchKernelEx(" + shape.entry.text() + ")");
}

Graph capture(const Stream& stream, const std::function<void()>& enqueue) {
  check(cu.cuStreamBeginCapture(raw(stream), CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  CUgraph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    if (cu.cuStreamEndCapture(raw(stream), &graph) == CUDA_SUCCESS && graph != nullptr) cu.cuGraphDestroy(graph);
    throw;
  }
  check(cu.cuStreamEndCapture(raw(stream), &graph), "cuStreamEndCapture");
  CUgraphExec executable = nullptr;
  const CUresult result = cu.cuGraphInstantiateWithFlags(&executable, graph, 0);
  cu.cuGraphDestroy(graph);
  check(result, "cuGraphInstantiateWithFlags");
  Graph owned(executable);
  check(cu.cuGraphUpload(executable, raw(stream)), "cuGraphUpload");
  return owned;
}

void launch(const Graph& graph, const Stream& stream) {
  check(cu.cuGraphLaunch(static_cast<CUgraphExec>(graph.get()), raw(stream)), "cuGraphLaunch");
}

}  // namespace moetune::cuda
