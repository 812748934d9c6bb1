// moetune.torch's operators as kernels that PyTorch's dispatcher calls without Python in between, through libtorch's
// stable C interface (torch/csrc/stable/c/shim.h, PyTorch 2.10 and newer). Its functions are looked up at run time, so
// that nothing here is built against PyTorch.
#include <dlfcn.h>

#include <mutex>
#include <stdexcept>

#include "decode_launch.h"

namespace moetune::python {
namespace {

// As the shim declares them: a value of the stack is a number, or a pointer that its taker owns.
using StackValue = uint64_t;
using TensorHandle = void*;
using Status = int32_t;
using Kernel = void (*)(StackValue*, uint64_t, uint64_t);
constexpr uint64_t kBuiltFor = (uint64_t{2} << 56) | (uint64_t{10} << 48);  // 2.10: strings on the stack

struct Torch {
  Status (*aoti_torch_library_init_impl)(const char*, const char*, const char*, uint32_t, void**);
  Status (*torch_library_impl)(void*, const char*, Kernel, uint64_t);
  Status (*aoti_torch_delete_tensor_object)(TensorHandle);
  Status (*aoti_torch_get_sizes)(TensorHandle, int64_t**);
  Status (*aoti_torch_get_strides)(TensorHandle, int64_t**);
  Status (*aoti_torch_get_dim)(TensorHandle, int64_t*);
  Status (*aoti_torch_get_data_ptr)(TensorHandle, void**);
  Status (*aoti_torch_get_dtype)(TensorHandle, int32_t*);
  Status (*aoti_torch_get_device_type)(TensorHandle, int32_t*);
  Status (*aoti_torch_get_device_index)(TensorHandle, int32_t*);
  Status (*aoti_torch_empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t,
                                     TensorHandle*);
  void (*aoti_torch_check)(bool, const char*, const char*, uint32_t, const char*);
  Status (*torch_string_c_str)(void*, const char**);
  Status (*torch_delete_string)(void*);
  int32_t (*aoti_torch_dtype_bfloat16)();
  int32_t (*aoti_torch_dtype_float16)();
  int32_t (*aoti_torch_dtype_float32)();
  int32_t (*aoti_torch_dtype_float8_e4m3fn)();
  int32_t (*aoti_torch_dtype_int32)();
  int32_t (*aoti_torch_dtype_int64)();
  int32_t (*aoti_torch_device_type_cuda)();
  // Of libtorch_cuda and libcuda; null without a GPU.
  Status (*aoti_torch_get_current_cuda_stream)(int32_t, void**);
  Status (*aoti_torch_create_cuda_guard)(int32_t, void**);
  Status (*aoti_torch_delete_cuda_guard)(void*);
  int (*cuStreamIsCapturing)(void*, int*);

  int32_t bfloat16, float16, float32, float8_e4m3fn, int32, int64, cuda;
  bool host_is_device;  // of device 0: for the scripted driver of the tests
};
Torch torch;

void require(Status status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string("moetune: PyTorch failed to ") + what);
}

DLDataType type_of(int32_t dtype) {
  if (dtype == torch.bfloat16) return {kDLBfloat, 16, 1};
  if (dtype == torch.float16) return {kDLFloat, 16, 1};
  if (dtype == torch.float32) return {kDLFloat, 32, 1};
  if (dtype == torch.float8_e4m3fn) return {kDLFloat8_e4m3fn, 8, 1};
  if (dtype == torch.int32) return {kDLInt, 32, 1};
  if (dtype == torch.int64) return {kDLInt, 64, 1};
  return {kDLOpaqueHandle, 0, 1};
}

// A tensor of the stack: released at the end of the call.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  ~Borrowed() {
    if (handle_ != nullptr) torch.aoti_torch_delete_tensor_object(handle_);
  }

  void take(StackValue value) { handle_ = reinterpret_cast<TensorHandle>(value); }
  void take_optional(StackValue value) {
    auto* const inner = reinterpret_cast<StackValue*>(value);
    if (inner != nullptr) take(*inner);
    delete inner;
  }
  TensorHandle release() { return std::exchange(handle_, nullptr); }
  TensorHandle handle() const { return handle_; }

  const DLTensor* view() {
    if (handle_ == nullptr) return nullptr;
    int64_t rank = 0;
    int32_t dtype = 0, device_type = 0, index = 0;
    require(torch.aoti_torch_get_dim(handle_, &rank), "read a tensor's rank");
    require(torch.aoti_torch_get_sizes(handle_, &view_.shape), "read a tensor's sizes");
    require(torch.aoti_torch_get_strides(handle_, &view_.strides), "read a tensor's strides");
    require(torch.aoti_torch_get_data_ptr(handle_, &view_.data), "read a tensor's address");
    require(torch.aoti_torch_get_dtype(handle_, &dtype), "read a tensor's type");
    require(torch.aoti_torch_get_device_type(handle_, &device_type), "read a tensor's device");
    require(torch.aoti_torch_get_device_index(handle_, &index), "read a tensor's device");
    view_.ndim = static_cast<int32_t>(rank);
    view_.dtype = type_of(dtype);
    view_.byte_offset = 0;
    if (torch.host_is_device) {
      view_.device = {kDLCUDA, 0};
    } else {
      view_.device = {device_type == torch.cuda ? kDLCUDA : kDLCPU, index};
    }
    return &view_;
  }

 private:
  TensorHandle handle_ = nullptr;
  DLTensor view_{};
};

bool heads_first(StackValue value) {
  void* const text = reinterpret_cast<void*>(value);
  const char* data = nullptr;
  require(torch.torch_string_c_str(text, &data), "read a string");
  const std::string layout = data;
  torch.torch_delete_string(text);
  if (layout != "NHD" && layout != "HND")
    fail(MOETUNE_INVALID_ARGUMENT, "decode_attention: layout is '" + layout + "'; it must be NHD or HND");
  return layout == "HND";
}

void empty_like(Borrowed& made, const DLTensor& q, TensorHandle handle) {
  int64_t strides[8] = {}, step = 1;
  if (q.ndim > 8) fail(MOETUNE_INVALID_ARGUMENT, "decode_attention: q has more than 4 dimensions");
  for (int d = q.ndim; d-- > 0; step *= std::max<int64_t>(q.shape[d], 1)) strides[d] = step;
  int32_t dtype = 0, device_type = 0, index = 0;
  torch.aoti_torch_get_dtype(handle, &dtype);
  torch.aoti_torch_get_device_type(handle, &device_type);
  torch.aoti_torch_get_device_index(handle, &index);
  TensorHandle out = nullptr;
  require(torch.aoti_torch_empty_strided(q.ndim, q.shape, strides, dtype, device_type, index, &out),
          "allocate the output");
  made.take(reinterpret_cast<StackValue>(out));
}

void launch_on_current_stream(DecodeRequest& request, int32_t device) {
  if (!torch.host_is_device) {
    require(torch.aoti_torch_get_current_cuda_stream(device, &request.stream), "tell the current stream");
    int state = 0;
    request.capturing = torch.cuStreamIsCapturing != nullptr &&
                        torch.cuStreamIsCapturing(request.stream, &state) == 0 && state != 0;
  }
  try {
    launch_decode(request);
  } catch (const ffi::Error& error) {
    if (torch.host_is_device || error.kind() != "moetune.WrongDevice") throw;
    void* guard = nullptr;  // the thread's current device may be another one
    require(torch.aoti_torch_create_cuda_guard(device, &guard), "change the current device");
    try {
      launch_decode(request);
    } catch (...) {
      torch.aoti_torch_delete_cuda_guard(guard);
      throw;
    }
    torch.aoti_torch_delete_cuda_guard(guard);
  }
}

enum Overload { kFunctional, kOut, kLse };

// The stack holds the arguments in the order of the schemas in moetune/torch.py.
template <Overload overload>
void run(StackValue* stack) {
  Borrowed tensors[kDecodeTensors];
  int next = 0;
  for (const int slot : {MOETUNE_DECODE_Q, MOETUNE_DECODE_K, MOETUNE_DECODE_V})
    tensors[slot].take(stack[next++]);
  tensors[MOETUNE_DECODE_PAGE_TABLE].take_optional(stack[next++]);
  tensors[MOETUNE_DECODE_LENGTHS].take(stack[next++]);
  const int scalars = next;
  next += 2;
  if (overload == kOut) tensors[MOETUNE_DECODE_O].take(stack[next++]);
  if (overload == kOut) tensors[MOETUNE_DECODE_LSE].take_optional(stack[next++]);
  if (overload == kLse) tensors[MOETUNE_DECODE_LSE].take(stack[next++]);
  DecodeRequest request;
  for (int64_t* field : {&request.max_context, &request.min_context, &request.total_tokens, &request.window})
    *field = static_cast<int64_t>(stack[next++]);
  for (const int slot : {MOETUNE_DECODE_SINKS, MOETUNE_DECODE_K_SCALE, MOETUNE_DECODE_V_SCALE})
    tensors[slot].take_optional(stack[next++]);
  std::memcpy(&request.scale, &stack[scalars], sizeof request.scale);
  request.heads_first = heads_first(stack[scalars + 1]);

  for (int slot = 0; slot < kDecodeTensors; ++slot) request.tensors[slot] = tensors[slot].view();
  const DLTensor& q = *request.tensors[MOETUNE_DECODE_Q];
  if (overload != kOut) {
    empty_like(tensors[MOETUNE_DECODE_O], q, tensors[MOETUNE_DECODE_Q].handle());
    request.tensors[MOETUNE_DECODE_O] = tensors[MOETUNE_DECODE_O].view();
  }
  launch_on_current_stream(request, q.device.device_id);
  if (overload != kOut) stack[0] = reinterpret_cast<StackValue>(tensors[MOETUNE_DECODE_O].release());
}

// What the last kernel of this thread failed with; PyTorch makes a RuntimeError of it. The exception is thrown by
// PyTorch itself, while nothing here is to be destroyed: this library may have a C++ runtime of its own, whose
// exceptions nobody else can catch.
thread_local std::string sentence;

template <Overload overload>
bool succeeds(StackValue* stack) noexcept {
  try {
    run<overload>(stack);
    return true;
  } catch (const ffi::Error& error) {
    sentence = error.kind() + ": " + error.message();
  } catch (const std::exception& error) {
    sentence = std::string("moetune.InternalError: ") + error.what();
  }
  return false;
}

template <Overload overload>
void kernel(StackValue* stack, uint64_t, uint64_t) {
  if (!succeeds<overload>(stack))
    torch.aoti_torch_check(false, "decode_attention", "moetune", 0, sentence.c_str());
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
  return function != nullptr;
}

bool find_functions(const std::string& folder) {
  const auto loaded = [](const std::string& name) { return ::dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY); };
  void* const cpu = loaded(folder + "/libtorch_cpu.so");
  void* const cuda = loaded(folder + "/libtorch_cuda.so");
#define MOETUNE_FIND(library, name) find(library, #name, torch.name)
  MOETUNE_FIND(cuda, aoti_torch_get_current_cuda_stream);
  MOETUNE_FIND(cuda, aoti_torch_create_cuda_guard);
  MOETUNE_FIND(cuda, aoti_torch_delete_cuda_guard);
  MOETUNE_FIND(::dlopen("libcuda.so.1", RTLD_LAZY), cuStreamIsCapturing);
  return MOETUNE_FIND(cpu, aoti_torch_library_init_impl) && MOETUNE_FIND(cpu, torch_library_impl) &&
         MOETUNE_FIND(cpu, aoti_torch_check) && MOETUNE_FIND(cpu, aoti_torch_delete_tensor_object) &&
         MOETUNE_FIND(cpu, aoti_torch_get_sizes) && MOETUNE_FIND(cpu, aoti_torch_get_strides) &&
         MOETUNE_FIND(cpu, aoti_torch_get_dim) && MOETUNE_FIND(cpu, aoti_torch_get_data_ptr) &&
         MOETUNE_FIND(cpu, aoti_torch_get_dtype) && MOETUNE_FIND(cpu, aoti_torch_get_device_type) &&
         MOETUNE_FIND(cpu, aoti_torch_get_device_index) && MOETUNE_FIND(cpu, aoti_torch_empty_strided) &&
         MOETUNE_FIND(cpu, torch_string_c_str) && MOETUNE_FIND(cpu, torch_delete_string) &&
         MOETUNE_FIND(cpu, aoti_torch_dtype_bfloat16) && MOETUNE_FIND(cpu, aoti_torch_dtype_float16) &&
         MOETUNE_FIND(cpu, aoti_torch_dtype_float32) && MOETUNE_FIND(cpu, aoti_torch_dtype_float8_e4m3fn) &&
         MOETUNE_FIND(cpu, aoti_torch_dtype_int32) && MOETUNE_FIND(cpu, aoti_torch_dtype_int64) &&
         MOETUNE_FIND(cpu, aoti_torch_device_type_cuda);
#undef MOETUNE_FIND
}

// Registers the kernels under a dispatch key; false if this PyTorch lacks a function.
bool torch_register(const ffi::String& folder, const ffi::String& key, bool host_is_device) {
  if (!find_functions(folder)) return false;
  if (!host_is_device &&
      (torch.aoti_torch_get_current_cuda_stream == nullptr || torch.cuStreamIsCapturing == nullptr ||
       torch.aoti_torch_create_cuda_guard == nullptr))
    return false;
  torch.bfloat16 = torch.aoti_torch_dtype_bfloat16();
  torch.float16 = torch.aoti_torch_dtype_float16();
  torch.float32 = torch.aoti_torch_dtype_float32();
  torch.float8_e4m3fn = torch.aoti_torch_dtype_float8_e4m3fn();
  torch.int32 = torch.aoti_torch_dtype_int32();
  torch.int64 = torch.aoti_torch_dtype_int64();
  torch.cuda = torch.aoti_torch_device_type_cuda();
  torch.host_is_device = host_is_device;
  void* library = nullptr;  // kept: deleting it takes the kernels away
  require(torch.aoti_torch_library_init_impl("moetune", key.c_str(), "moetune", 0, &library),
          "make a library");
  require(torch.torch_library_impl(library, "decode_attention", kernel<kFunctional>, kBuiltFor),
          "take a kernel");
  require(torch.torch_library_impl(library, "decode_attention.out", kernel<kOut>, kBuiltFor),
          "take a kernel");
  require(torch.torch_library_impl(library, "decode_attention.lse", kernel<kLse>, kBuiltFor),
          "take a kernel");
  return true;
}

}  // namespace
}  // namespace moetune::python

TVM_FFI_DLL_EXPORT_TYPED_FUNC(torch_register, moetune::python::torch_register)
