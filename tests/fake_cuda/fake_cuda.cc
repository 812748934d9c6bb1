// See README.md beside this file. Plain globals: launches take turns, and one thread does the rest.
#include "tests/fake_cuda/fake_cuda.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/contexts.h"
#include "tests/fake_cuda/devices.h"
#include "tests/fake_cuda/launches.h"
#include "tests/fake_cuda/queue.h"
#include "tests/fake_cuda/tensor_map.h"

namespace fake_cuda {

Machine machine;

namespace {

// What a launch saves that may start before the one in front has ended.
constexpr double kOverlapUs = 2;

struct RecordedLaunch {
  const Kernel* kernel;
  std::vector<std::uint64_t> parameters;
  Grid grid;
  bool overlaps;
};

struct FakeGraph {
  std::vector<RecordedLaunch> launches;
};

struct FakeModule {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, std::int64_t> facts;
  std::string specialization;
  std::map<std::string, std::vector<unsigned char>> variables;
};

// Launches of several threads take turns.
std::mutex one_at_a_time;

// "moetune fake cubin head_dim=128 group=8\n": what a kernel was compiled for; other images say nothing.
std::map<std::string, std::int64_t> facts_of(const char* image) {
  static constexpr char kMark[] = "moetune fake cubin ";
  for (std::size_t i = 0; i + 1 < sizeof kMark; ++i) {
    if (image[i] != kMark[i]) return {};
  }
  std::map<std::string, std::int64_t> facts;
  if (!specialization_of(image).empty()) return facts;
  std::istringstream words(std::string(image + sizeof kMark - 1, std::strchr(image, '\n')));
  for (std::string word; words >> word;) {
    if (const std::size_t equals = word.find('='); equals != std::string::npos)
      facts[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
  }
  return facts;
}

FakeGraph* capturing = nullptr;

void run(const RecordedLaunch& launch) {
  machine.run(*launch.kernel, launch.parameters, launch.grid);
  if (launch.overlaps) machine.clock_us -= kOverlapUs;
}

CUresult sticky() { return static_cast<CUresult>(machine.sticky); }

CUresult init(unsigned) { return static_cast<CUresult>(machine.script.number("init", 0)); }

CUresult driver_get_version(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult error, const char** name) {
  static const std::map<int, const char*> names = {{0, "CUDA_SUCCESS"},
                                                   {1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                   {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {999, "CUDA_ERROR_UNKNOWN"}};
  const auto found = names.find(error);
  *name = found != names.end() ? found->second : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult get_error_string(CUresult, const char** text) {
  *text = "scripted";
  return CUDA_SUCCESS;
}

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
  machine.ordinal = device;
  if (machine.is_gone()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (machine.script.has("crash_at_open")) std::abort();
  *context = reinterpret_cast<CUcontext>(&machine);
  return CUDA_SUCCESS;
}

CUresult primary_ctx_release(CUdevice) { return sticky(); }

std::atomic<int> slow_calls{0};  // for tests: allocations, synchronizations and loads
int count_slow_calls() { return slow_calls; }

int count_settled() { return machine.settled_launches; }

CUresult stream_synchronize(CUstream) {
  ++slow_calls;
  if (machine.hanging) std::ofstream(machine.script.text("hangs")) << "x";
  while (machine.hanging) pause();
  return sticky();
}

CUresult ctx_synchronize() { return stream_synchronize(nullptr); }

CUresult mem_get_info(std::size_t* free, std::size_t* total) {
  *total = machine.memory_bytes();
  *free = *total - machine.used_bytes;
  return sticky();
}

CUresult mem_alloc(CUdeviceptr* address, std::size_t bytes) {
  ++slow_calls;
  if (machine.sticky != 0) return sticky();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine.used_bytes + bytes > machine.memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  machine.allocations[*address] = bytes;
  machine.used_bytes += bytes;
  return CUDA_SUCCESS;
}

CUresult mem_free(CUdeviceptr address) {
  const auto found = machine.allocations.find(address);
  if (found == machine.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  machine.used_bytes -= found->second;
  machine.allocations.erase(found);
  std::free(reinterpret_cast<void*>(address));
  return sticky();
}

CUresult memset_d8_async(CUdeviceptr address, unsigned char value, std::size_t bytes, CUstream) {
  if (machine.sticky == 0) std::memset(reinterpret_cast<void*>(address), value, bytes);
  return sticky();
}

CUresult memcpy_h_to_d_async(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  if (machine.sticky == 0) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return sticky();
}

CUresult memcpy_d_to_d_async(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  if (machine.sticky == 0) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return sticky();
}

// "links=40": copies from pinned host memory go at 40 GB/s, to it at half of that, with pageable memory at a quarter of
// either, on and between GPUs at 80 GB/s. Without it they take no time.
CUresult memcpy_async(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  const double gb_s = static_cast<double>(machine.script.number("links", 0));
  const auto is_pinned = [](CUdeviceptr place) { return machine.pinned.contains(place); };
  const auto is_on_device = [](CUdeviceptr place) { return machine.allocations.contains(place); };
  const double share = is_on_device(to) && is_on_device(from)
                           ? 2
                           : (is_on_device(to) ? 1 : 0.5) * (is_pinned(to) || is_pinned(from) ? 1 : 0.25);
  if (gb_s > 0) machine.clock_us += static_cast<double>(bytes) / (gb_s * share * 1e3);
  return memcpy_d_to_d_async(to, from, bytes, stream);
}

CUresult mem_host_register(void* memory, std::size_t, unsigned) {
  machine.pinned.insert(reinterpret_cast<CUdeviceptr>(memory));
  return machine.script.has("unpinned") ? CUDA_ERROR_NOT_SUPPORTED : sticky();
}

CUresult mem_host_unregister(void* memory) {
  machine.pinned.erase(reinterpret_cast<CUdeviceptr>(memory));
  return sticky();
}

CUresult device_can_access_peer(int* can, CUdevice from, CUdevice to) {
  *can = !machine.script.has("strangers") && (from < to || !machine.script.has("oneway"));
  return CUDA_SUCCESS;
}

// As the driver does, once only for two contexts.
CUresult ctx_enable_peer_access(CUcontext peer, unsigned) {
  static std::mutex mutex;
  static std::map<CUcontext, std::set<CUcontext>> open;
  CUcontext own = nullptr;
  ctx_get_current(&own);
  const std::lock_guard lock(mutex);
  return open[own].insert(peer).second ? sticky() : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult mem_host_alloc(void** memory, std::size_t bytes, unsigned) {
  ++slow_calls;
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return sticky();
}

CUresult mem_host_get_device_pointer(CUdeviceptr* address, void* memory, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return sticky();
}

CUresult mem_free_host(void* memory) {
  std::free(memory);
  return sticky();
}

CUresult memcpy_d_to_h(void* to, CUdeviceptr from, std::size_t bytes) {
  if (machine.sticky == 0) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return sticky();
}

CUresult stream_begin_capture(CUstream, CUstreamCaptureMode mode) {
  if (capturing != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  capture_begins(mode);
  capturing = new FakeGraph;
  return sticky();
}

CUresult stream_end_capture(CUstream, CUgraph* graph) {
  capture_ends();
  *graph = reinterpret_cast<CUgraph>(std::exchange(capturing, nullptr));
  return sticky();
}

CUresult graph_instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  *executable = reinterpret_cast<CUgraphExec>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
  return sticky();
}

CUresult graph_destroy(CUgraph graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec executable) {
  delete reinterpret_cast<FakeGraph*>(executable);
  return CUDA_SUCCESS;
}

CUresult graph_upload(CUgraphExec, CUstream) { return sticky(); }

CUresult graph_launch(CUgraphExec executable, CUstream) {
  machine.in_graph = true;
  for (const RecordedLaunch& launch : reinterpret_cast<FakeGraph*>(executable)->launches) {
    if (machine.sticky != 0) break;
    run(launch);
  }
  machine.in_graph = false;
  return CUDA_SUCCESS;
}

// For tests: modules that are loaded and not unloaded.
std::atomic<int> loaded_modules{0};
int count_modules() { return loaded_modules; }

CUresult module_load_data(CUmodule* module, const void* image) {
  ++slow_calls;
  if (machine.script.has("bad_image")) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (const char* const code = std::getenv("MOETUNE_FAKE_LOAD")) return static_cast<CUresult>(std::atoi(code));
  if (!may_load()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const auto* text = static_cast<const char*>(image);
  ++loaded_modules;
  *module = reinterpret_cast<CUmodule>(new FakeModule{{}, facts_of(text), specialization_of(text), {}});
  return sticky();
}

CUresult module_unload(CUmodule module) {
  delete reinterpret_cast<FakeModule*>(module);  // even if it fails: a driver's leak is none of ours
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  --loaded_modules;
  return sticky();
}

CUresult module_get_function(CUfunction* function, CUmodule module, const char* entry) {
  if (std::strstr(entry, "__by") != nullptr) machine.remembered.clear();
  ++slow_calls;
  Kernel kernel = Kernel::named(entry);
  if (kernel.parameters == 0) return CUDA_ERROR_NOT_FOUND;
  kernel.facts = reinterpret_cast<FakeModule*>(module)->facts;
  kernel.specialization = reinterpret_cast<FakeModule*>(module)->specialization;
  if (kernel.base == "prefill_attention") kernel.parameters = prefill_parameters(kernel.specialization);
  auto& kernels = reinterpret_cast<FakeModule*>(module)->kernels;
  *function = reinterpret_cast<CUfunction>(&kernels.emplace(entry, kernel).first->second);
  return sticky();
}

// Every module has variables of 64 bytes, of any name but "missing".
CUresult module_get_global(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
  if (std::strcmp(name, "missing") == 0) return CUDA_ERROR_NOT_FOUND;
  auto& variable = reinterpret_cast<FakeModule*>(module)->variables[name];
  variable.resize(64);
  *address = reinterpret_cast<CUdeviceptr>(variable.data());
  *bytes = variable.size();
  return sticky();
}

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  if (machine.sticky != 0) return sticky();
  if (!takes_kernels(config->hStream)) return CUDA_ERROR_INVALID_HANDLE;
  const auto* kernel = reinterpret_cast<const Kernel*>(function);
  if (const int refusal = kernel->refusal(); refusal != 0) return static_cast<CUresult>(refusal);
  if (const CUresult refusal = check_shape(*config, *kernel); refusal != CUDA_SUCCESS) return refusal;
  std::vector<std::uint64_t> values(kernel->parameters);
  for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], sizeof(std::uint64_t));
  if (kernel->base == "mla_decode" || kernel->base == "mla_decode_spans") {
    FakeTensorMap kv;
    std::memcpy(&kv, parameters[1], sizeof kv);
    values.push_back(kv.strides[0] / 2);  // of 16 bits each
    values.push_back(kv.strides[2] / 2);
  }
  const bool overlaps = attribute_of(*config, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
                            .programmaticStreamSerializationAllowed != 0;
  RecordedLaunch launch{kernel, std::move(values), {config->gridDimX, config->gridDimY, config->gridDimZ}, overlaps};
  wait_for_room(config->hStream);
  const std::lock_guard lock(one_at_a_time);
  const CUlaunchAttributeValue cluster = attribute_of(*config, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  record_launch(kernel->base, config->hStream,
                {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                 .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                 .cluster = {cluster.clusterDim.x, cluster.clusterDim.y, cluster.clusterDim.z},
                 .dynamic_shared = config->sharedMemBytes,
                 .overlaps = overlaps});
  if (capturing != nullptr) {
    capturing->launches.push_back(std::move(launch));
  } else {
    run(launch);
  }
  return CUDA_SUCCESS;
}

template <typename Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& all_symbols() {
  static const std::map<std::string, void*> symbols = {
      {"cuInit", address_of(init)},
      {"cuDriverGetVersion", address_of(driver_get_version)},
      {"cuGetErrorName", address_of(get_error_name)},
      {"cuGetErrorString", address_of(get_error_string)},
      {"cuDeviceGetCount", address_of(device_get_count)},
      {"cuDeviceGet", address_of(device_get)},
      {"cuDeviceGetName", address_of(device_get_name)},
      {"cuDeviceGetAttribute", address_of(device_get_attribute)},
      {"cuDeviceTotalMem", address_of(device_total_mem)},
      {"cuDeviceGetPCIBusId", address_of(device_get_pci_bus_id)},
      {"cuDeviceGetUuid", address_of(device_get_uuid)},
      {"cuDevicePrimaryCtxRetain", address_of(primary_ctx_retain)},
      {"cuDevicePrimaryCtxRelease", address_of(primary_ctx_release)},
      {"cuCtxSetCurrent", address_of(ctx_set_current)},
      {"cuCtxGetCurrent", address_of(ctx_get_current)},
      {"cuCtxGetDevice", address_of(ctx_get_device)},
      {"cuStreamGetCtx", address_of(stream_get_ctx)},
      {"cuFuncGetAttribute", address_of(func_get_attribute)},
      {"cuCtxSynchronize", address_of(ctx_synchronize)},
      {"cuMemGetInfo", address_of(mem_get_info)},
      {"cuMemAlloc", address_of(mem_alloc)},
      {"cuMemFree", address_of(mem_free)},
      {"cuMemsetD8Async", address_of(memset_d8_async)},
      {"cuMemcpyHtoDAsync", address_of(memcpy_h_to_d_async)},
      {"cuMemcpyDtoDAsync", address_of(memcpy_d_to_d_async)},
      {"cuMemcpyAsync", address_of(memcpy_async)},
      {"cuMemHostRegister", address_of(mem_host_register)},
      {"cuMemHostUnregister", address_of(mem_host_unregister)},
      {"cuDeviceCanAccessPeer", address_of(device_can_access_peer)},
      {"cuCtxEnablePeerAccess", address_of(ctx_enable_peer_access)},
      {"cuMemHostAlloc", address_of(mem_host_alloc)},
      {"cuMemHostGetDevicePointer", address_of(mem_host_get_device_pointer)},
      {"cuMemFreeHost", address_of(mem_free_host)},
      {"cuMemcpyDtoH", address_of(memcpy_d_to_h)},
      {"cuStreamCreate", address_of(stream_create)},
      {"cuStreamDestroy", address_of(stream_destroy)},
      {"cuStreamSynchronize", address_of(stream_synchronize)},
      {"cuStreamBeginCapture", address_of(stream_begin_capture)},
      {"cuStreamEndCapture", address_of(stream_end_capture)},
      {"cuEventCreate", address_of(event_create)},
      {"cuEventDestroy", address_of(event_destroy)},
      {"cuEventRecord", address_of(event_record)},
      {"cuEventElapsedTime", address_of(event_elapsed_time)},
      {"cuModuleLoadData", address_of(module_load_data)},
      {"cuModuleUnload", address_of(module_unload)},
      {"cuThreadExchangeStreamCaptureMode", address_of(exchange_capture_mode)},
      {"cuModuleGetGlobal", address_of(module_get_global)},
      {"cuModuleGetFunction", address_of(module_get_function)},
      {"cuFuncSetAttribute", address_of(func_set_attribute)},
      {"cuLaunchKernelEx", address_of(launch_kernel_ex)},
      {"cuGraphInstantiateWithFlags", address_of(graph_instantiate)},
      {"cuGraphDestroy", address_of(graph_destroy)},
      {"cuGraphUpload", address_of(graph_upload)},
      {"cuGraphLaunch", address_of(graph_launch)},
      {"cuGraphExecDestroy", address_of(graph_exec_destroy)},
      {"cuTensorMapEncodeTiled", address_of(tensor_map_encode)}};
  return symbols;
}

// What tests ask the stand-in itself.
const std::map<std::string, void*>& test_hooks() {
  static const std::map<std::string, void*> hooks = {{"fakeCountModules", address_of(count_modules)},
                                                     {"fakeCountEncodings", address_of(count_encodings)},
                                                     {"fakeCountSlowCalls", address_of(count_slow_calls)},
                                                     {"fakeRecordLaunches", address_of(record_launches)},
                                                     {"fakeFillQueue", address_of(fill_queue)},
                                                     {"fakeCountSettled", address_of(count_settled)},
                                                     {"fakeCountWaiting", address_of(count_waiting)}};
  return hooks;
}

void* find_symbol(const std::string& name) {
  const auto& symbols = name.starts_with("fake") ? test_hooks() : all_symbols();
  const auto found = symbols.find(name);
  return found != symbols.end() && machine.script.text("without") != name ? found->second : nullptr;
}

}  // namespace
}  // namespace fake_cuda

extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(const char* symbol, void** function, int,
                                                                               cuuint64_t,
                                                                               CUdriverProcAddressQueryResult*) {
  if (fake_cuda::machine.script.has("stub")) return CUDA_ERROR_STUB_LIBRARY;
  *function = fake_cuda::find_symbol(symbol);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
