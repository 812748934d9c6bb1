// The CUDA driver API behind moetune's own types: libcuda.so.1 is opened at run time (or the library that
// MOETUNE_LIBCUDA names), and every symbol comes from cuGetProcAddress. driver_symbols.h alone includes cuda.h.
//
// Any process may call this, a server that replays a plan as well as the worker: initialize() comes first and
// once, and what needs a context takes the thread's current one, a Context's or the caller's own. After
// initialize() the functions are as thread-safe as the driver's. Handles own what they hold, belong to one
// thread at a time and must die before their Context. Errors:
// initialize() throws BrokenEnvironment (NoGpu where there is none); everything after it throws CudaError,
// which is an Outcome where a candidate caused it and a broken environment where none did.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/plan.h"
#include "launch/device_info.h"

namespace moetune::cuda {

// There is no driver at all, or no GPU behind it, unlike one that does not work.
class NoGpu : public BrokenEnvironment {
 public:
  using BrokenEnvironment::BrokenEnvironment;
};

class CudaError : public std::runtime_error {
 public:
  enum class Kind {
    memory,   // out of device memory
    image,    // the cubin does not fit this driver or device
    request,  // what was asked for is not there or not possible, such as a function or an attribute of it
    device,   // the GPU or the machine, whatever ran: it is gone, or its memory or its links fail
    suspect,  // a kernel's fault, or the device's: whether others fail too tells which
    other,
  };

  CudaError(Kind which, const std::string& text) : std::runtime_error(text), kind(which) {}

  Kind kind;
};

using Address = std::uint64_t;

void initialize();
int device_count();
std::string driver_version();  // "CUDA 13.0"

// Everything that can be told without a context; `key.driver` is driver_version().
DeviceInfo describe_device(int ordinal);

// Whether `from` can read and write what is on `to`. Needs no context.
bool can_access(int from, int to);

class StreamRef;

// The device's primary context, retained while it lives.
class Context {
 public:
  enum class Current { yes, no };  // on the thread that makes it

  explicit Context(int ordinal, Current current = Current::yes);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int ordinal() const { return device_; }
  void* handle() const { return context_; }
  // Makes it current on the calling thread, too.
  void make_current() const;
  bool is_current() const;
  // Whether a stream is this context's; the default stream is always. Throws CudaError if the driver cannot tell.
  bool owns(StreamRef stream) const;

  // False after a sticky error: nothing but a new process helps.
  bool alive() const;
  std::int64_t free_memory() const;

 private:
  int device_;
  void* context_ = nullptr;
};

// A context that is current on its thread for a scope, in place of what was. Meanwhile the thread may load, allocate
// and unload although another one captures a graph.
class CurrentContext {
 public:
  explicit CurrentContext(const Context& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  void* before_ = nullptr;
  int capture_mode_;  // that was: a CUstreamCaptureMode
};

// The current context may read and write what is on the peer from now on.
void open_access_to(const Context& peer);

// The ordinal of the calling thread's current context; nullopt if it has none.
std::optional<int> current_device();

// A move-only handle whose Traits know how to destroy it.
template <typename Traits>
class Handle {
 public:
  using Raw = typename Traits::Raw;

  Handle() = default;
  explicit Handle(Raw raw) : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, Raw{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Handle() {
    if (raw_ != Raw{}) Traits::destroy(raw_);
  }
  Raw get() const { return raw_; }

 private:
  Raw raw_{};
};

struct MemoryTraits {
  using Raw = Address;
  static void destroy(Raw raw);
};
struct HostMemoryTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};
struct PinnedTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};
struct StreamTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};
struct EventTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};
struct ModuleTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};
struct GraphTraits {
  using Raw = void*;
  static void destroy(Raw raw);
};

using Memory = Handle<MemoryTraits>;
using HostMemory = Handle<HostMemoryTraits>;  // page-locked, and mapped for kernels
using Pinned = Handle<PinnedTraits>;          // somebody else's memory, page-locked while this lives
using Stream = Handle<StreamTraits>;
using Event = Handle<EventTraits>;
using Module = Handle<ModuleTraits>;
using Graph = Handle<GraphTraits>;  // an instantiated one
using Function = void*;             // owned by its module

// A stream that somebody owns: a Stream above, or the caller's CUstream.
class StreamRef {
 public:
  StreamRef(const Stream& stream) : raw(stream.get()) {}
  explicit StreamRef(void* stream) : raw(stream) {}

  void* raw;
};

Memory allocate(std::int64_t bytes);
HostMemory allocate_on_host(std::int64_t bytes);
Address device_address(const HostMemory& memory);
Pinned pin(std::span<std::uint8_t> memory);
void set_bytes(Address address, std::uint8_t value, std::int64_t bytes, StreamRef stream);
void copy_on_device(Address to, Address from, std::int64_t bytes, StreamRef stream);
// From anywhere to anywhere: host memory, this device's, or a peer's that open_access_to() opened.
void copy(Address to, Address from, std::int64_t bytes, StreamRef stream);
// Both wait for what the stream holds first.
void copy_to_device(Address to, std::span<const std::uint8_t> bytes, const Stream& stream);
void copy_to_host(std::span<std::uint8_t> to, Address from, const Stream& stream);

Stream make_stream();
void synchronize(const Stream& stream);

Event make_event();
void record(const Event& event, const Stream& stream);
double elapsed_us(const Event& begin, const Event& end);  // both must have happened

Module load_module(std::span<const std::uint8_t> cubin);
// The entry of that name, or else the one of `mangled` that it stands for (kernels/entry_name.h): a cubin's own.
Function find_function(const Module& module, const std::string& entry, const std::set<std::string>& mangled = {});
// The variable of that name, __constant__ or __device__, which must have room for so many bytes.
Address find_variable(const Module& module, const std::string& name, std::int64_t bytes);
std::set<std::string> mangled_in(std::span<const std::uint8_t> cubin);
// Permits what the launch will ask of the function: dynamic shared memory past 48 KiB, clusters past 8.
void permit(Function function, const LaunchShape& launch);
// Permits whatever the device can do, for a function whose launches are not known yet.
void permit_all(Function function, const std::string& entry, const DeviceLimits& limits);

// `parameters` holds a pointer to each argument's bytes. Allocates nothing unless it fails.
void launch(Function function, const LaunchShape& shape, void** parameters, StreamRef stream);

// Records what `enqueue` puts on the stream instead of running it.
Graph capture(const Stream& stream, const std::function<void()>& enqueue);
void launch(const Graph& graph, const Stream& stream);

struct alignas(128) EncodedTensorMap {
  std::array<std::uint8_t, 128> bytes;
};
EncodedTensorMap encode_tensor_map(const TensorMap& map, Address base);

}  // namespace moetune::cuda
