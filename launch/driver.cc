#include "launch/driver.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace moetune::cuda {
namespace {

// The oldest driver interface that has all that is used here (clusters, programmatic launches).
constexpr int kInterface = 12000;

struct Functions {
  // clang-format would indent this list further at every run.
// clang-format off
#define MOETUNE_CUDA_FUNCTIONS(X)                                                                 \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount)       \
  X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem)                   \
  X(cuDeviceGetPCIBusId) X(cuDeviceGetUuid)                                                       \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)                                        \
  X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree)               \
  X(cuMemHostAlloc) X(cuMemHostGetDevicePointer) X(cuMemFreeHost) X(cuMemcpyDtoDAsync)            \
  X(cuMemsetD8Async) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoH) X(cuStreamCreate) X(cuStreamDestroy)    \
  X(cuStreamSynchronize) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuEventCreate)           \
  X(cuEventDestroy) X(cuEventRecord) X(cuEventElapsedTime) X(cuModuleLoadData) X(cuModuleUnload)  \
  X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuLaunchKernelEx) X(cuGraphInstantiateWithFlags) \
  X(cuGraphDestroy) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy)                       \
  X(cuTensorMapEncodeTiled)
// clang-format on
#define X(name) decltype(&::name) name = nullptr;
  MOETUNE_CUDA_FUNCTIONS(X)
#undef X
};

Functions cu;

const char* error_name(CUresult result) {
  const char* name = nullptr;
  return cu.cuGetErrorName != nullptr && cu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr
             ? name
             : "unknown CUDA error";
}

CudaError::Kind kind_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CudaError::Kind::memory;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_PTX:
      return CudaError::Kind::image;
    default:
      return CudaError::Kind::other;
  }
}

void check(CUresult result, const std::string& call) {
  if (result == CUDA_SUCCESS) return;
  const char* description = nullptr;
  if (cu.cuGetErrorString(result, &description) != CUDA_SUCCESS || description == nullptr) description = "";
  throw CudaError(kind_of(result), call + ": " + error_name(result) + " (" + description + ")");
}

CUstream raw(const Stream& stream) { return static_cast<CUstream>(stream.get()); }

void* open_library() {
  const char* named = std::getenv("MOETUNE_LIBCUDA");
  const char* path = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const error = dlerror();
  const std::string reason = error != nullptr ? error : path;
  const std::string message = "no CUDA driver: " + reason + "; install the NVIDIA driver";
  // The loader tells a file that is not there from one that is no library by its words alone.
  if (reason.find("cannot open shared object file") != std::string::npos) throw NoGpu(message);
  throw BrokenEnvironment(message);
}

void resolve_all(void* library) {
  auto get = reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    throw BrokenEnvironment("the CUDA driver is older than 12.0 (no cuGetProcAddress_v2); update it");
  }
  const auto resolve = [&](const char* name, auto& function) {
    void* found = nullptr;
    if (get(name, &found, kInterface, CU_GET_PROC_ADDRESS_DEFAULT, nullptr) != CUDA_SUCCESS ||
        found == nullptr) {
      throw BrokenEnvironment(std::string("the CUDA driver has no ") + name + "; update it to 12.0 or later");
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define X(name) resolve(#name, cu.name);
  MOETUNE_CUDA_FUNCTIONS(X)
#undef X
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(cu.cuDeviceGetAttribute(&value, which, device),
        "cuDeviceGetAttribute(" + std::to_string(which) + ")");
  return value;
}

CUtensorMapDataType tensor_type(DType type) {
  switch (type) {
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::e4m3:
    case DType::u8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::i64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
  }
  throw std::logic_error("unknown element type");
}

CUtensorMapSwizzle tensor_swizzle(TensorMap::Swizzle swizzle) {
  switch (swizzle) {
    case TensorMap::Swizzle::none:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case TensorMap::Swizzle::b32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case TensorMap::Swizzle::b64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case TensorMap::Swizzle::b128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  throw std::logic_error("unknown swizzle");
}

}  // namespace

// Destruction ignores errors: after a sticky one, every call fails and the process is about to end.
void MemoryTraits::destroy(Raw raw) { cu.cuMemFree(raw); }
void HostMemoryTraits::destroy(Raw raw) { cu.cuMemFreeHost(raw); }
void StreamTraits::destroy(Raw raw) { cu.cuStreamDestroy(static_cast<CUstream>(raw)); }
void EventTraits::destroy(Raw raw) { cu.cuEventDestroy(static_cast<CUevent>(raw)); }
void ModuleTraits::destroy(Raw raw) { cu.cuModuleUnload(static_cast<CUmodule>(raw)); }
void GraphTraits::destroy(Raw raw) { cu.cuGraphExecDestroy(static_cast<CUgraphExec>(raw)); }

void initialize() {
  resolve_all(open_library());
  const CUresult result = cu.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    throw NoGpu("the CUDA driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE)");
  if (result != CUDA_SUCCESS) {
    throw BrokenEnvironment(std::string("the CUDA driver does not start: cuInit: ") + error_name(result) +
                            "; check nvidia-smi and that the kernel module matches the library");
  }
}

int device_count() {
  int count = 0;
  check(cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

std::string driver_version() {
  int version = 0;
  check(cu.cuDriverGetVersion(&version), "cuDriverGetVersion");
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

namespace {

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
  }
  return text;
}

}  // namespace

DeviceInfo describe_device(int ordinal) {
  CUdevice device = 0;
  check(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet(" + std::to_string(ordinal) + ")");
  char name[256] = {};
  check(cu.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  char bus[64] = {};
  check(cu.cuDeviceGetPCIBusId(bus, sizeof bus, device), "cuDeviceGetPCIBusId");
  CUuuid uuid = {};
  check(cu.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  std::size_t memory = 0;
  check(cu.cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");

  DeviceInfo info;
  DeviceLimits& limits = info.limits;
  limits.compute_capability = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  limits.sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  limits.shared_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  limits.shared_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  limits.registers_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  limits.threads_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  limits.l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  limits.memory_bytes = static_cast<std::int64_t>(memory);

  info.id = "cuda:" + std::to_string(ordinal);
  info.pci_bus_id = bus;
  info.uuid = uuid_text(uuid);
  info.architecture = architecture_name(limits.compute_capability);
  info.key.name = name;
  info.key.compute_capability = limits.compute_capability;
  info.key.sm_count = limits.sm_count;
  info.key.l2_bytes = limits.l2_bytes;
  info.key.memory_bytes = limits.memory_bytes;
  info.key.sm_clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.key.memory_clock_khz = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.key.driver = driver_version();
  return info;
}

Context::Context(int ordinal) : device_(ordinal) {
  CUcontext context = nullptr;
  check(cu.cuDevicePrimaryCtxRetain(&context, device_), "cuDevicePrimaryCtxRetain");
  check(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

Context::~Context() { cu.cuDevicePrimaryCtxRelease(device_); }

bool Context::alive() const { return cu.cuCtxSynchronize() == CUDA_SUCCESS; }

std::int64_t Context::free_memory() const {
  std::size_t free = 0, total = 0;
  check(cu.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return static_cast<std::int64_t>(free);
}

Memory allocate(std::int64_t bytes) {
  CUdeviceptr address = 0;
  check(cu.cuMemAlloc(&address, static_cast<std::size_t>(bytes)),
        "cuMemAlloc of " + std::to_string(bytes) + " bytes");
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

void set_bytes(Address address, std::uint8_t value, std::int64_t bytes, const Stream& stream) {
  if (bytes > 0)
    check(cu.cuMemsetD8Async(address, value, static_cast<std::size_t>(bytes), raw(stream)),
          "cuMemsetD8Async");
}

void copy_to_device(Address to, std::span<const std::uint8_t> bytes, const Stream& stream) {
  // cuMemcpyHtoD may return while the last of a pageable source is still on its way to the device, and
  // kernels on a non-blocking stream would not wait for it: the copy belongs to the stream.
  if (!bytes.empty())
    check(cu.cuMemcpyHtoDAsync(to, bytes.data(), bytes.size(), raw(stream)), "cuMemcpyHtoDAsync");
  synchronize(stream);
}

void copy_on_device(Address to, Address from, std::int64_t bytes, const Stream& stream) {
  if (bytes > 0)
    check(cu.cuMemcpyDtoDAsync(to, from, static_cast<std::size_t>(bytes), raw(stream)), "cuMemcpyDtoDAsync");
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
  check(cu.cuEventElapsedTime(&milliseconds, static_cast<CUevent>(begin.get()),
                              static_cast<CUevent>(end.get())),
        "cuEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

Module load_module(std::span<const std::uint8_t> cubin) {
  CUmodule module = nullptr;
  check(cu.cuModuleLoadData(&module, cubin.data()), "cuModuleLoadData");
  return Module(module);
}

Function find_function(const Module& module, const std::string& entry) {
  CUfunction function = nullptr;
  check(cu.cuModuleGetFunction(&function, static_cast<CUmodule>(module.get()), entry.c_str()),
        "cuModuleGetFunction(" + entry + ")");
  return function;
}

void permit(Function function, const Launch& launch) {
  const auto set = [&](CUfunction_attribute which, int value, const char* what) {
    check(cu.cuFuncSetAttribute(static_cast<CUfunction>(function), which, value),
          std::string("cuFuncSetAttribute(") + what + ", " + std::to_string(value) + ") of " +
              launch.entry.text());
  };
  if (launch.dynamic_shared > 0) {
    set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(launch.dynamic_shared),
        "dynamic shared memory");
  }
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 8) {
    set(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, "clusters past 8");
  }
}

void launch(Function function, const Launch& shape, void** parameters, const Stream& stream) {
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
  check(cu.cuLaunchKernelEx(&config, static_cast<CUfunction>(function), parameters, nullptr),
        "cuLaunchKernelEx(" + shape.entry.text() + ")");
}

Graph capture(const Stream& stream, const std::function<void()>& enqueue) {
  check(cu.cuStreamBeginCapture(raw(stream), CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
  CUgraph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    if (cu.cuStreamEndCapture(raw(stream), &graph) == CUDA_SUCCESS && graph != nullptr)
      cu.cuGraphDestroy(graph);
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

EncodedTensorMap encode_tensor_map(const TensorMap& map, Address base) {
  const std::size_t rank = map.dims.size();
  if (rank < 1 || rank > 5 || map.strides.size() + 1 != rank || map.box.size() != rank) {
    throw CudaError(CudaError::Kind::other,
                    "tensor map of " + map.buffer.text() + ": dims, strides and box do not agree in rank");
  }
  std::array<std::uint32_t, 5> element_strides;
  element_strides.fill(1);
  CUtensorMap encoded;
  static_assert(sizeof encoded == sizeof(EncodedTensorMap) &&
                alignof(CUtensorMap) <= alignof(EncodedTensorMap));
  check(cu.cuTensorMapEncodeTiled(
            &encoded, tensor_type(map.dtype), static_cast<cuuint32_t>(rank), reinterpret_cast<void*>(base),
            reinterpret_cast<const cuuint64_t*>(map.dims.data()),
            reinterpret_cast<const cuuint64_t*>(map.strides.data()), map.box.data(), element_strides.data(),
            // 128 B: what a swizzled row fetches. With 256 B, streams lose 8% of an H200's bandwidth to lines
            // that are evicted before their copy asks for them.
            CU_TENSOR_MAP_INTERLEAVE_NONE, tensor_swizzle(map.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled of " + map.buffer.text());
  EncodedTensorMap result;
  std::memcpy(result.bytes.data(), &encoded, sizeof encoded);
  return result;
}

}  // namespace moetune::cuda
