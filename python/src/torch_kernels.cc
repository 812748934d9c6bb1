// moetune.torch's operators as kernels that PyTorch's dispatcher calls without Python in between, through libtorch's
// stable C interface (torch/csrc/stable/c/shim.h, PyTorch 2.10 and newer). Its functions are looked up at run time, so
// that nothing here is built against PyTorch.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <forward_list>
#include <stdexcept>

#include "operator_launch.h"

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
  Status (*aoti_torch_empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, TensorHandle*);
  void (*aoti_torch_check)(bool, const char*, const char*, uint32_t, const char*);
  Status (*aoti_torch_zero_)(TensorHandle);
  bool (*aoti_torch_grad_mode_is_enabled)();
  Status (*torch_set_requires_grad)(TensorHandle, bool);
  Status (*torch_string_c_str)(void*, const char**);
  Status (*torch_string_length)(void*, size_t*);
  Status (*torch_delete_string)(void*);
  Status (*torch_list_size)(void*, size_t*);
  Status (*torch_list_get_item)(void*, size_t, StackValue*);
  Status (*torch_list_push_back)(void*, StackValue);
  Status (*torch_new_list_reserve_size)(size_t, void**);
  Status (*torch_delete_list)(void*);
  int32_t (*aoti_torch_device_type_cpu)();
  int32_t (*aoti_torch_device_type_cuda)();
  bool (*requires_grad)(const void*);  // c10::TensorImpl::requires_grad() const: the C interface has no such function
  // From libtorch_cuda and libcuda; null without a GPU.
  Status (*aoti_torch_get_current_cuda_stream)(int32_t, void**);
  Status (*aoti_torch_create_cuda_guard)(int32_t, void**);
  Status (*aoti_torch_delete_cuda_guard)(void*);
  int (*cuStreamIsCapturing)(void*, int*);
  int (*cuCtxGetDevice)(int*);

  int32_t cuda;
  bool host_is_device;  // of device 0: for the scripted driver of the tests
};
Torch torch;

void require(Status status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string("moetune: PyTorch failed to ") + what);
}

// PyTorch's numbers of types, which its functions tell.
struct KnownType {
  const char* function;
  DLDataType type;
  int32_t number = -1;
};
KnownType known_types[] = {{"aoti_torch_dtype_bfloat16", kBf16},
                           {"aoti_torch_dtype_float16", kF16},
                           {"aoti_torch_dtype_float32", kF32},
                           {"aoti_torch_dtype_float8_e4m3fn", kE4m3},
                           {"aoti_torch_dtype_int32", kI32},
                           {"aoti_torch_dtype_int64", kI64},
                           {"aoti_torch_dtype_bool", kBool},
                           {"aoti_torch_dtype_uint8", kU8},
                           {"aoti_torch_dtype_float64", {kDLFloat, 64, 1}},
                           {"aoti_torch_dtype_int8", {kDLInt, 8, 1}},
                           {"aoti_torch_dtype_int16", {kDLInt, 16, 1}}};

DLDataType type_of(int32_t dtype) {
  for (const KnownType& known : known_types) {
    if (known.number == dtype) return known.type;
  }
  return {kDLOpaqueHandle, 0, 1};
}

int32_t dtype_of(DLDataType type) {
  for (const KnownType& known : known_types) {
    if (number_of(known.type) == number_of(type)) return known.number;
  }
  fail(MOETUNE_INVALID_ARGUMENT, "an output would have a type that no kernel writes");
}

// A string of the stack: released at the end of the call.
struct Text {
  Text() = default;
  Text(const Text&) = delete;
  ~Text() {
    if (handle != nullptr) torch.torch_delete_string(handle);
  }
  std::string_view view() const {
    const char* data = nullptr;
    size_t length = 0;
    require(torch.torch_string_c_str(handle, &data), "read a string");
    require(torch.torch_string_length(handle, &length), "read a string");
    return {data, length};
  }

  void* handle = nullptr;
};

// A list of the stack, which does not own what it holds: released at the end of the call.
struct List {
  List() = default;
  List(const List&) = delete;
  ~List() {
    if (handle != nullptr) torch.torch_delete_list(handle);
  }
  size_t size() const {
    size_t count = 0;
    require(torch.torch_list_size(handle, &count), "read a list");
    return count;
  }
  StackValue operator[](size_t index) const {
    StackValue value = 0;
    require(torch.torch_list_get_item(handle, index, &value), "read a list");
    return value;
  }

  void* handle = nullptr;
};

// A tensor of the stack: released at the end of the call.
class BorrowedTensor {
 public:
  BorrowedTensor() = default;
  BorrowedTensor(const BorrowedTensor&) = delete;
  ~BorrowedTensor() {
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
  // A handle is an at::Tensor's address, and that holds nothing but the address of a TensorImpl.
  bool requires_grad() const { return handle_ != nullptr && torch.requires_grad(*static_cast<void**>(handle_)); }

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
  DLTensor view_;  // once view() has filled it
};

// Makes a device the thread's current one for a scope. A thread without a context has PyTorch's device 0, and the
// launch would leave it with the context of another one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t device) {
    int present = 0;
    if (torch.host_is_device || (torch.cuCtxGetDevice(&present) == 0 && present == device)) return;
    require(torch.aoti_torch_create_cuda_guard(device, &guard_), "change the current device");
  }
  CurrentDevice(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (guard_ != nullptr) torch.aoti_torch_delete_cuda_guard(guard_);
  }

 private:
  void* guard_ = nullptr;
};

void launch_on_current_stream(CallPlan& plan, Given& given) {
  const auto device = static_cast<int32_t>(plan.key.device);
  if (!torch.host_is_device) {
    require(torch.aoti_torch_get_current_cuda_stream(device, &given.stream), "tell the current stream");
    int state = 0;
    given.capturing = torch.cuStreamIsCapturing(given.stream, &state) == 0 && state != 0;
  }
  const CurrentDevice current(device);
  launch_planned(plan, given);
}

// A call of an overload, as PyTorch hands it over: owns what the stack holds.
class StackCall {
 public:
  // Everything has its owner before anything can throw.
  StackCall(const Overload& overload, const StackValue* stack) : overload_(overload) {
    int texts = 0, lists = 0;
    for (const Parameter& parameter : overload.parameters) {
      const StackValue value = *stack++;
      switch (parameter.kind) {
        case Parameter::kTensor:
          tensors_[parameter.place].take(value);
          break;
        case Parameter::kOptionalTensor:
          tensors_[parameter.place].take_optional(value);
          break;
        case Parameter::kInteger:
        case Parameter::kSymbolicInteger:
          integer(parameter) = static_cast<int64_t>(value);
          break;
        case Parameter::kFlag:
          integer(parameter) = int64_t{(value & 0xff) != 0};
          break;
        case Parameter::kScale:
          std::memcpy(&given_.scale, &value, sizeof given_.scale);
          break;
        case Parameter::kChoice:
        case Parameter::kKernel:
        case Parameter::kFacts:
          texts_[texts++].handle = reinterpret_cast<void*>(value);
          break;
        default:
          lists_[lists++].handle = reinterpret_cast<void*>(value);
      }
    }
    const List* list = lists_;
    for (const Parameter& parameter : overload.parameters) {
      if (parameter.is_list()) own(parameter, *list);
      list += parameter.is_any_list();
    }
  }

  // Runs it; `stack` gets what the overload returns.
  void run(StackValue* stack) {
    if (torch.aoti_torch_grad_mode_is_enabled()) refuse_gradients();
    read();
    CallPlan& plan = plan_of(overload_, given_);
    if (overload_.makes_outputs) {
      for (const TensorShape& output : plan.outputs) make(output);
    }
    launch_on_current_stream(plan, given_);
    if (plan.is_idle) zero(plan.outputs);
    if (overload_.parameters.front().kind == Parameter::kKernel) return give_list(stack, plan.outputs);
    if (!overload_.makes_outputs) return;
    for (const TensorShape& output : plan.outputs)
      *stack++ = reinterpret_cast<StackValue>(tensors_[output.slot].release());
  }

 private:
  int64_t& integer(const Parameter& parameter) { return given_.integers[static_cast<size_t>(parameter.place)]; }

  void own(const Parameter& parameter, const List& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      BorrowedTensor& tensor = listed_.emplace_front();
      parameter.kind == Parameter::kRead ? tensor.take_optional(list[i]) : tensor.take(list[i]);
    }
  }

  void refuse_gradients() const {
    for (const Parameter& parameter : overload_.parameters) {
      if (parameter.is_tensor() && tensors_[parameter.place].requires_grad())
        fail(MOETUNE_INVALID_ARGUMENT, gradient_sentence(overload_, parameter));
    }
    for (const BorrowedTensor& tensor : listed_)
      if (tensor.requires_grad()) fail(MOETUNE_INVALID_ARGUMENT, gradient_sentence(overload_, overload_.parameters[1]));
  }

  void read() {
    const Text* text = texts_;
    const List* list = lists_;
    listed_.reverse();
    auto listed = listed_.begin();
    LaunchedCall& launched = given_.launched;
    for (const Parameter& parameter : overload_.parameters) {
      if (parameter.kind == Parameter::kChoice) integer(parameter) = choice_of(overload_, parameter, (text++)->view());
      if (parameter.kind == Parameter::kKernel) launched.kernel = (text++)->view();
      if (parameter.kind == Parameter::kFacts) launched.facts = (text++)->view();
      if (!parameter.is_any_list()) continue;
      for (size_t i = 0; i < list->size(); ++i) {
        const StackValue value = (*list)[i];
        const size_t place = launched.next(parameter.kind);
        if (parameter.is_list()) given_.tensors[place] = (listed++)->view();
        if (parameter.kind == Parameter::kIntegers) launched.integers[place] = static_cast<int64_t>(value);
        if (parameter.kind == Parameter::kReals) launched.reals[place] = std::bit_cast<double>(value);
      }
      ++list;
    }
    for (size_t slot = 0; slot < overload_.tensor_count; ++slot) given_.tensors[slot] = tensors_[slot].view();
    for (const Parameter& parameter : overload_.parameters)
      if (parameter.also >= 0) given_.tensors[parameter.also] = given_.tensors[parameter.place];
  }

  void give_list(StackValue* stack, const TensorShapes& outputs) {
    if (!overload_.makes_outputs) return;
    void* list = nullptr;
    require(torch.torch_new_list_reserve_size(static_cast<size_t>(outputs.count), &list), "make a list");
    for (const TensorShape& output : outputs)
      require(torch.torch_list_push_back(list, reinterpret_cast<StackValue>(tensors_[output.slot].release())),
              "fill a list");
    *stack = reinterpret_cast<StackValue>(list);
  }

  // On the device of the first argument.
  void make(const TensorShape& output) {
    std::array<int64_t, MOETUNE_MAX_RANK> strides{};
    int64_t step = 1;
    for (size_t d = output.shape().size(); d-- > 0; step *= std::max<int64_t>(output.sizes[d], 1)) strides[d] = step;
    const auto is_given = [](const BorrowedTensor& tensor) { return tensor.handle() != nullptr; };
    TensorHandle const like = listed_.empty() ? tensors_[overload_.parameters.front().place].handle()
                                              : std::ranges::find_if(listed_, is_given)->handle();
    int32_t device_type = 0, index = 0;
    torch.aoti_torch_get_device_type(like, &device_type);
    torch.aoti_torch_get_device_index(like, &index);
    TensorHandle made = nullptr;
    require(torch.aoti_torch_empty_strided(output.rank, output.sizes.data(), strides.data(), dtype_of(output.type),
                                           device_type, index, &made),
            "allocate an output");
    tensors_[output.slot].take(reinterpret_cast<StackValue>(made));
    given_.tensors[output.slot] = tensors_[output.slot].view();
  }

  void zero(const TensorShapes& outputs) {
    for (const TensorShape& output : outputs) {
      if (std::ranges::find(output.shape(), 0) != output.shape().end()) continue;  // no elements
      require(torch.aoti_torch_zero_(tensors_[output.slot].handle()), "zero an output");
    }
  }

  const Overload& overload_;
  BorrowedTensor tensors_[MOETUNE_MAX_TENSORS];  // by slot
  std::forward_list<BorrowedTensor> listed_;     // launch's
  Text texts_[4];
  List lists_[4];
  Given given_;
};

// The error of this thread's last kernel; PyTorch makes a RuntimeError of it. PyTorch itself throws the exception,
// while nothing here is to be destroyed: this library may have a C++ runtime of its own, whose exceptions nobody else
// can catch.
thread_local std::string sentence;

bool succeeds(const Overload& overload, StackValue* stack) noexcept {
  try {
    StackCall(overload, stack).run(stack);
    return true;
  } catch (const ffi::Error& error) {
    sentence = error.kind() + ": " + error.message();
  } catch (const std::exception& error) {
    sentence = std::string("moetune.InternalError: ") + error.what();
  }
  return false;
}

template <size_t index>
void kernel(StackValue* stack, uint64_t, uint64_t) {
  const Overload& overload = overloads()[index];
  if (!succeeds(overload, stack)) torch.aoti_torch_check(false, overload.name.c_str(), "moetune", 0, sentence.c_str());
}

template <size_t... indices>
constexpr std::array<Kernel, kOverloads> kernels_of(std::index_sequence<indices...>) {
  return {kernel<indices>...};
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = library != nullptr ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
  return function != nullptr;
}

// Whether requires_grad() reads a tensor's flag, as it does unless PyTorch's own classes have changed.
bool reads_gradients() {
  const int64_t size = 1;
  TensorHandle handle = nullptr;
  require(
      torch.aoti_torch_empty_strided(1, &size, &size, dtype_of(kF32), torch.aoti_torch_device_type_cpu(), 0, &handle),
      "allocate a number");
  BorrowedTensor tensor;
  tensor.take(reinterpret_cast<StackValue>(handle));
  if (tensor.requires_grad()) return false;
  return torch.torch_set_requires_grad(handle, true) == 0 && tensor.requires_grad();
}

bool find_types(void* cpu) {
  for (KnownType& known : known_types) {
    int32_t (*number)() = nullptr;
    if (!find(cpu, known.function, number)) return false;
    known.number = number();
  }
  return true;
}

bool find_functions(const std::string& folder) {
  const auto loaded = [](const std::string& name) { return ::dlopen(name.c_str(), RTLD_NOLOAD | RTLD_LAZY); };
  void* const cpu = loaded(folder + "/libtorch_cpu.so");
  void* const cuda = loaded(folder + "/libtorch_cuda.so");
#define MOETUNE_FIND(library, name) find(library, #name, torch.name)
  MOETUNE_FIND(cuda, aoti_torch_get_current_cuda_stream);
  MOETUNE_FIND(cuda, aoti_torch_create_cuda_guard);
  MOETUNE_FIND(cuda, aoti_torch_delete_cuda_guard);
  find(loaded(folder + "/libc10.so"), "_ZNK3c1010TensorImpl13requires_gradEv", torch.requires_grad);
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY);
  MOETUNE_FIND(driver, cuStreamIsCapturing);
  MOETUNE_FIND(driver, cuCtxGetDevice);
  return find_types(cpu) && torch.requires_grad != nullptr && MOETUNE_FIND(cpu, aoti_torch_grad_mode_is_enabled) &&
         MOETUNE_FIND(cpu, torch_set_requires_grad) && MOETUNE_FIND(cpu, aoti_torch_device_type_cpu) &&
         MOETUNE_FIND(cpu, aoti_torch_library_init_impl) && MOETUNE_FIND(cpu, torch_library_impl) &&
         MOETUNE_FIND(cpu, aoti_torch_check) && MOETUNE_FIND(cpu, aoti_torch_delete_tensor_object) &&
         MOETUNE_FIND(cpu, aoti_torch_get_sizes) && MOETUNE_FIND(cpu, aoti_torch_get_strides) &&
         MOETUNE_FIND(cpu, aoti_torch_get_dim) && MOETUNE_FIND(cpu, aoti_torch_get_data_ptr) &&
         MOETUNE_FIND(cpu, aoti_torch_get_dtype) && MOETUNE_FIND(cpu, aoti_torch_get_device_type) &&
         MOETUNE_FIND(cpu, aoti_torch_get_device_index) && MOETUNE_FIND(cpu, aoti_torch_empty_strided) &&
         MOETUNE_FIND(cpu, aoti_torch_zero_) && MOETUNE_FIND(cpu, torch_string_c_str) &&
         MOETUNE_FIND(cpu, torch_string_length) && MOETUNE_FIND(cpu, torch_delete_string) &&
         MOETUNE_FIND(cpu, torch_list_size) && MOETUNE_FIND(cpu, torch_list_get_item) &&
         MOETUNE_FIND(cpu, torch_list_push_back) && MOETUNE_FIND(cpu, torch_new_list_reserve_size) &&
         MOETUNE_FIND(cpu, torch_delete_list) && MOETUNE_FIND(cpu, aoti_torch_device_type_cuda);
#undef MOETUNE_FIND
}

// Registers the kernels under a dispatch key; false if this PyTorch lacks a function.
bool torch_register(const ffi::String& folder, const ffi::String& key, bool host_is_device) {
  if (!find_functions(folder)) return false;
  if (!host_is_device && (torch.aoti_torch_get_current_cuda_stream == nullptr || torch.cuStreamIsCapturing == nullptr ||
                          torch.cuCtxGetDevice == nullptr || torch.aoti_torch_create_cuda_guard == nullptr))
    return false;
  torch.cuda = torch.aoti_torch_device_type_cuda();
  torch.host_is_device = host_is_device;
  if (!reads_gradients()) return false;
  void* library = nullptr;  // kept: deleting it takes the kernels away
  require(torch.aoti_torch_library_init_impl("moetune", key.c_str(), "moetune", 0, &library), "make a library");
  constexpr auto kernels = kernels_of(std::make_index_sequence<kOverloads>());
  for (size_t i = 0; i < kOverloads; ++i)
    require(torch.torch_library_impl(library, overloads()[i].name.c_str(), kernels[i], kBuiltFor), "take a kernel");
  return true;
}

}  // namespace
}  // namespace moetune::python

TVM_FFI_DLL_EXPORT_TYPED_FUNC(torch_register, moetune::python::torch_register)
