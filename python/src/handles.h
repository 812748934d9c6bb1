// The objects that Python holds: reference-counted, over the handles and plain values of moetune.h.
//
// A Runtime may be closed while families, choices and other threads still refer to it: every call takes the
// runtime's lock shared and close() takes it alone, so that a late call fails with a sentence and never reads freed
// memory. An object keeps alive what it needs: a Choice its Family, a Family its Runtime. Failures throw
// tvm::ffi::Error, whose kind names the Python class ("moetune.NotTuned").
#pragma once

#include <dlpack/dlpack.h>
#include <moetune.h>
#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace moetune::python {

namespace ffi = tvm::ffi;

[[noreturn]] void fail(moetune_status status, const std::string& sentence);

inline void check(moetune_status status) {
  if (status != MOETUNE_OK) [[unlikely]]
    fail(status, moetune_last_error());
}

// The text for C. Throws InvalidArgument if it holds a NUL, where C would end it; `name` says what it is.
const char* c_text(const ffi::String& text, const char* name);

class RuntimeObj : public ffi::Object {
 public:
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moetune.Runtime", RuntimeObj, ffi::Object);

  RuntimeObj(moetune_runtime* handle, int device) : handle_(handle), device_(device) {}
  ~RuntimeObj() { close(); }

  // Unloads without the lock: others find the runtime closed at once, and need not wait with the GIL held.
  void close() {
    std::unique_lock alone(mutex_);
    moetune_runtime* const handle = std::exchange(handle_, nullptr);
    alone.unlock();
    moetune_close(handle);
  }
  bool is_closed() const {
    const std::shared_lock shared(mutex_);
    return handle_ == nullptr;
  }
  int device() const { return device_; }

  // The handle, open for as long as this lives.
  class Use {
   public:
    explicit Use(const RuntimeObj& runtime) : Use(runtime, std::nothrow) {
      if (handle_ == nullptr) fail(MOETUNE_INVALID_ARGUMENT, "the runtime is closed");
    }
    // The handle is null if the runtime is closed.
    Use(const RuntimeObj& runtime, std::nothrow_t) : shared_(runtime.mutex_), handle_(runtime.handle_) {}
    moetune_runtime* handle() const { return handle_; }

   private:
    std::shared_lock<std::shared_mutex> shared_;
    moetune_runtime* handle_;
  };

 private:
  mutable std::shared_mutex mutex_;
  moetune_runtime* handle_;
  int device_;
};

class Runtime : public ffi::ObjectRef {
 public:
  explicit Runtime(ffi::ObjectPtr<RuntimeObj> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Runtime, ffi::ObjectRef, RuntimeObj);
};

class FamilyObj : public ffi::Object {
 public:
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moetune.Family", FamilyObj, ffi::Object);

  FamilyObj(Runtime owner, moetune_family* opened) : runtime(std::move(owner)), handle(opened) {}

  const Runtime runtime;
  moetune_family* const handle;  // valid within a RuntimeObj::Use
};

class Family : public ffi::ObjectRef {
 public:
  explicit Family(ffi::ObjectPtr<FamilyObj> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Family, ffi::ObjectRef, FamilyObj);
};

class ChoiceObj : public ffi::Object {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moetune.Choice", ChoiceObj, ffi::Object);

  ChoiceObj(Family from, const moetune_choice& picked, size_t count)
      : family(std::move(from)), value(picked), extent_count(count) {}

  const Family family;
  const moetune_choice value;
  const size_t extent_count;
};

class Choice : public ffi::ObjectRef {
 public:
  explicit Choice(ffi::ObjectPtr<ChoiceObj> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Choice, ffi::ObjectRef, ChoiceObj);
};

// A bound call. Keeps the tensors that it was made of.
class ArgumentsObj : public ffi::Object {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("moetune.Arguments", ArgumentsObj, ffi::Object);

  moetune_arguments value{};
  int64_t extents[MOETUNE_MAX_EXTENTS]{};
  size_t extent_count = 0;
  int device = -1;               // of the tensors
  std::optional<Family> family;  // that bound it; none if made by hand
  std::vector<ffi::Tensor> tensors;
};

class Arguments : public ffi::ObjectRef {
 public:
  explicit Arguments(ffi::ObjectPtr<ArgumentsObj> object) : ObjectRef(std::move(object)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Arguments, ffi::ObjectRef, ArgumentsObj);
};

// A caller's memory for scratch.
struct Memory {
  void* address = nullptr;
  size_t bytes = 0;
};

// nullptr for None. Throws TypeError for what is no tensor; `name` is the parameter's.
const DLTensor* tensor_or_null(const ffi::AnyView& value, const char* name);
// The memory of a contiguous tensor, or none. Throws WrongDevice unless it is on `device`; nullopt allows any.
Memory memory_of(const ffi::AnyView& value, std::optional<int> device);
// An address, an object with __cuda_stream__, or None: the framework's current stream on the device.
void* stream_of(const ffi::AnyView& value, int device);

}  // namespace moetune::python
