// Runtimes: the slow path, called with the GIL released.
#include <tvm/ffi/container/array.h>

#include "handles.h"

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

// A path as the file system has it, which need not be UTF-8.
std::string path_of(const ffi::Bytes& bytes, const char* what) {
  return c_text(ffi::String(bytes.data(), bytes.size()), what);
}

std::vector<std::string> paths_of(const ffi::Array<ffi::Bytes>& paths, const char* what) {
  std::vector<std::string> all;
  for (const ffi::Bytes& path : paths) all.push_back(path_of(path, what));
  return all;
}

std::vector<const char*> c_texts(const std::vector<std::string>& texts) {
  std::vector<const char*> all;
  for (const std::string& text : texts) all.push_back(text.c_str());
  return all;
}

Runtime open(const ffi::Array<ffi::Bytes>& paths, int64_t device, bool allow_recorded,
             const ffi::Array<ffi::Bytes>& trusted_keys) {
  const std::vector<std::string> kept_paths = paths_of(paths, "a path"), kept_keys = paths_of(trusted_keys, "a key");
  const std::vector<const char*> texts = c_texts(kept_paths), keys = c_texts(kept_keys);
  const moetune_open_options options{sizeof options,         texts.data(), texts.size(), static_cast<int32_t>(device),
                                     allow_recorded ? 1 : 0, keys.data(),  keys.size()};
  if (options.device != device) fail(MOETUNE_INVALID_ARGUMENT, "no device has such a number");
  moetune_runtime* handle = nullptr;
  check(moetune_open(&options, &handle));
  int32_t ordinal = 0;
  check(moetune_device(handle, &ordinal));
  return Runtime(ffi::make_object<RuntimeObj>(handle, ordinal));
}

void close(const Runtime& runtime) { runtime->close(); }
bool is_closed(const Runtime& runtime) { return runtime->is_closed(); }
int64_t device(const Runtime& runtime) { return runtime->device(); }

Family family(const Runtime& runtime, const ffi::String& kernel, const ffi::String& specialization) {
  const Use use(*runtime.get());
  moetune_family* handle = nullptr;
  check(moetune_family_open(use.handle(), c_text(kernel, "the kernel's name"),
                            c_text(specialization, "the specialization"), &handle));
  return Family(ffi::make_object<FamilyObj>(runtime, handle));
}

void refresh(const Runtime& runtime, const ffi::String& generation) {
  check(moetune_refresh(Use(*runtime.get()).handle(), c_text(generation, "the generation")));
}

ffi::String prepare(const Runtime& runtime) {
  char text[33];
  check(moetune_prepare(Use(*runtime.get()).handle(), text));
  return text;
}

ffi::String generation(const Runtime& runtime) {
  char text[33];
  check(moetune_generation(Use(*runtime.get()).handle(), text));
  return text;
}

// A text of unknown length, read until the buffer holds it all.
template <typename Read>
ffi::String read_text(const Read& read) {
  std::string text(1024, '\0');
  for (size_t needed = 0;;) {
    check(read(text.data(), text.size(), &needed));
    if (needed <= text.size()) return ffi::String(text.data(), needed > 0 ? needed - 1 : 0);
    text.resize(needed);
  }
}

ffi::String warnings(const Runtime& runtime) {
  const Use use(*runtime.get());
  return read_text([&](char* text, size_t capacity, size_t* needed) {
    return moetune_warnings(use.handle(), text, capacity, needed);
  });
}

ffi::String explain(const Choice& choice) {
  const Use use(*choice->family->runtime.get());
  return read_text([&](char* text, size_t capacity, size_t* needed) {
    return moetune_explain(choice->family->handle, &choice->value, text, capacity, needed);
  });
}

ffi::Array<int64_t> counts(const Runtime& runtime) {
  moetune_counts counts{};
  counts.size = sizeof counts;
  check(moetune_count(Use(*runtime.get()).handle(), &counts));
  ffi::Array<int64_t> values;
  for (const uint64_t value :
       {counts.exact, counts.nearest, counts.defaults, counts.pinned, counts.misses, counts.launches})
    values.push_back(static_cast<int64_t>(value));
  return values;
}

void write_misses(const Runtime& runtime, const ffi::Bytes& path) {
  check(moetune_write_misses(Use(*runtime.get()).handle(), path_of(path, "the path").c_str()));
}

int64_t abi_version() { return moetune_abi_version(); }

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

TVM_FFI_DLL_EXPORT_TYPED_FUNC(open, mp::open)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(close, mp::close)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(is_closed, mp::is_closed)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(device, mp::device)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(family, mp::family)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(refresh, mp::refresh)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(prepare, mp::prepare)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(generation, mp::generation)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(warnings, mp::warnings)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(explain, mp::explain)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(counts, mp::counts)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(write_misses, mp::write_misses)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(abi_version, mp::abi_version)
