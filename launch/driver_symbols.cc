#include "launch/driver_symbols.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "launch/driver.h"

namespace moetune::cuda {
namespace {

// The oldest driver interface that has all that is used here (clusters, programmatic launches).
constexpr int kInterface = 12000;

// CUDA_ERROR_CONTAINED, which older headers lack: an access over NVLink, or the hardware.
constexpr auto kContained = static_cast<CUresult>(226);

CudaError::Kind kind_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CudaError::Kind::memory;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
      return CudaError::Kind::image;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED:
      return CudaError::Kind::request;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return CudaError::Kind::device;
    case CUDA_ERROR_HARDWARE_STACK_ERROR:  // or a kernel's stack that is too small
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_UNKNOWN:
    case kContained:
      return CudaError::Kind::suspect;
    default:
      return CudaError::Kind::other;
  }
}

// Whether the machine has a driver, going by files: the library that was named, else what the driver's kernel
// module makes. The loader's words do not tell: it has the same ones for a library that lacks another.
bool has_driver(const char* named) { return ::access(named != nullptr ? named : "/dev/nvidiactl", F_OK) == 0; }

// null if none was named
const char* named_library() { return environment_variable("MOETUNE_LIBCUDA"); }

void* open_library() {
  const char* const named = named_library();
  const char* const path = named != nullptr ? named : "libcuda.so.1";
  try {
    if (named != nullptr) require_regular_file(named);  // the loader would wait for a pipe
  } catch (const BadInput& error) {
    throw BrokenEnvironment(std::string("MOETUNE_LIBCUDA: ") + error.what());
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const error = dlerror();
  const std::string reason = error != nullptr ? error : path;
  if (!has_driver(named)) throw NoGpu("no CUDA driver: " + reason + "; install the NVIDIA driver");
  throw BrokenEnvironment("the CUDA driver cannot be loaded: " + reason +
                          "; check that the NVIDIA driver is installed as a whole");
}

// The toolkit's library to link with, which a path to its folder "stubs" puts in the driver's place.
[[noreturn]] void refuse_stub(void* function) {
  Dl_info place = {};
  const bool known = ::dladdr(function, &place) != 0 && place.dli_fname != nullptr;
  const std::string text =
      std::string(known ? place.dli_fname : "libcuda.so.1") +
      " is the CUDA toolkit's stub of the driver, which is for linking alone; take its folder out of LD_LIBRARY_PATH";
  if (!has_driver(named_library())) throw NoGpu("no CUDA driver: " + text + ", and install the NVIDIA driver");
  throw BrokenEnvironment("the CUDA driver is hidden: " + text);
}

void resolve_all(void* library) {
  auto get = reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    throw BrokenEnvironment("the CUDA driver is older than 12.0 (no cuGetProcAddress_v2); update it");
  }
  const auto resolve = [&](const char* name, auto& function) {
    void* found = nullptr;
    const CUresult result = get(name, &found, kInterface, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
    if (result == CUDA_ERROR_STUB_LIBRARY) refuse_stub(reinterpret_cast<void*>(get));
    if (result != CUDA_SUCCESS || found == nullptr) {
      throw BrokenEnvironment(std::string("the CUDA driver has no ") + name + "; update it to 12.0 or later");
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define X(name) resolve(#name, cu.name);
  MOETUNE_CUDA_FUNCTIONS(X)
#undef X
}

}  // namespace

Functions cu;

const char* error_name(CUresult result) {
  const char* name = nullptr;
  return cu.cuGetErrorName != nullptr && cu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr
             ? name
             : "unknown CUDA error";
}

void check(CUresult result, const std::string& call) {
  if (result == CUDA_SUCCESS) return;
  const char* description = nullptr;
  if (cu.cuGetErrorString(result, &description) != CUDA_SUCCESS || description == nullptr) description = "";
  throw CudaError(kind_of(result), call + ": " + error_name(result) + " (" + description + ")");
}

void initialize() {
  resolve_all(open_library());
  const CUresult result = cu.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE) throw NoGpu("the CUDA driver finds no GPU (cuInit: CUDA_ERROR_NO_DEVICE)");
  if (result == CUDA_ERROR_STUB_LIBRARY) refuse_stub(reinterpret_cast<void*>(cu.cuInit));
  if (result != CUDA_SUCCESS) {
    throw BrokenEnvironment(std::string("the CUDA driver does not start: cuInit: ") + error_name(result) +
                            "; check nvidia-smi and that the kernel module matches the library");
  }
}

}  // namespace moetune::cuda
