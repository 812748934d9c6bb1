// include/moetune.h over the C++ runtime: handles, structures and statuses. Nothing throws past here.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/utf8.h"
#include "base/version.h"
#include "include/moetune.h"
#include "runtime/c_options.h"
#include "runtime/dlpack.h"
#include "runtime/explanation.h"
#include "runtime/layers.h"
#include "runtime/runtime.h"

// The handle that the caller holds. The mark tells a handle from other memory as far as possible; the number tells a
// choice from those of another family.
struct moetune_family {
  static constexpr std::uint64_t kMark = 0x6d6f6574756e6566;

  std::uint64_t mark = kMark;
  std::uint8_t number = 0;
  moetune::Runtime* runtime = nullptr;
  moetune::Family* family = nullptr;
};

struct moetune_runtime {
  static constexpr std::uint64_t kMark = 0x6d6f6574756e6572;

  explicit moetune_runtime(const moetune::OpenOptions& options) : runtime(options) {}

  std::uint64_t mark = kMark;
  moetune::Runtime runtime;
  std::deque<moetune_family> families;  // handed out; guarded by the mutex
  std::mutex mutex;
};

namespace moetune {
namespace {

static_assert(MOETUNE_MAX_EXTENTS == Extents::capacity());
static_assert(MOETUNE_MAX_TENSORS == LaunchKey::kMaxTensors);
static_assert(MOETUNE_MAX_INTEGERS == Call::kMaxIntegers && MOETUNE_MAX_REALS == Call::kMaxReals);
static_assert(MOETUNE_WORKSPACE_COUNTERS == kWorkspaceCounters);
static_assert(MOETUNE_MAX_RANK == TensorView::kMaxRank && sizeof(moetune_slot::name) == sizeof(Name));
static_assert(static_cast<int>(Role::input) == 0 && static_cast<int>(Role::output) == 1 &&
              static_cast<int>(Role::in_out) == 2);
static_assert(int{MOETUNE_CHOICE_EXACT} == static_cast<int>(ChoiceKind::exact) &&
              int{MOETUNE_CHOICE_NEAREST} == static_cast<int>(ChoiceKind::nearest) &&
              int{MOETUNE_CHOICE_DEFAULT} == static_cast<int>(ChoiceKind::by_default) &&
              int{MOETUNE_CHOICE_PINNED} == static_cast<int>(ChoiceKind::pinned));

thread_local std::string last_error;

constexpr std::size_t kLongestError = 2000;  // a sentence may quote what the caller gave

moetune_status fail(moetune_status status, const char* text) noexcept {
  try {
    // A little more than is kept, so that what is kept is cut between characters.
    last_error = shortened(to_utf8({text, ::strnlen(text, kLongestError + 4)}), kLongestError);
  } catch (...) {
    last_error.clear();
  }
  return status;
}

moetune_status status_of(const cuda::CudaError& error) {
  return error.kind == cuda::CudaError::Kind::memory ? MOETUNE_OUT_OF_MEMORY : MOETUNE_CUDA_ERROR;
}

// Runs what a function does, and turns what it throws into a status.
template <typename Body>
moetune_status guarded(const Body& body) noexcept {
  try {
    body();
    return MOETUNE_OK;
  } catch (const RuntimeError& error) {
    return fail(error.status, error.what());
  } catch (const cuda::CudaError& error) {
    return fail(status_of(error), error.what());
  } catch (const cuda::NoGpu& error) {
    return fail(MOETUNE_NO_DRIVER, error.what());
  } catch (const BadInput& error) {
    return fail(MOETUNE_INVALID_ARGUMENT, error.what());
  } catch (const NothingStored& error) {
    return fail(MOETUNE_NOT_TUNED, error.what());
  } catch (const BrokenEnvironment& error) {
    return fail(MOETUNE_BAD_FILE, error.what());
  } catch (const std::bad_alloc&) {
    return fail(MOETUNE_OUT_OF_MEMORY, "no memory left on the host");
  } catch (const std::exception& error) {
    return fail(MOETUNE_INTERNAL, error.what());
  } catch (...) {
    return fail(MOETUNE_INTERNAL, "an unknown error");
  }
}

Runtime& runtime_of(moetune_runtime* handle) {
  if (required(handle, "the runtime").mark == moetune_runtime::kMark) return handle->runtime;
  throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the runtime is closed or none that moetune_open returned");
}

Family& family_of(moetune_family* handle) {
  if (required(handle, "the family").mark == moetune_family::kMark) return *handle->family;
  throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the family is none that moetune_family_open returned");
}

Extents extents_of(const Family& family, const std::int64_t* extents, std::size_t count) {
  const std::size_t wanted = family.kernel().free_dimensions().size();
  if (count != wanted)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, family.kernel().name() + " has " + std::to_string(wanted) +
                                                     " free dimensions, not " + std::to_string(count));
  Extents copied;
  if (count > 0) required(extents, "extents");
  for (std::size_t i = 0; i < count; ++i) copied.push_back(extents[i]);
  return copied;
}

// Above a choice's number in its family.
constexpr unsigned kFamilyShift = 24;
static_assert(FamilyEntries::kMost < std::uint32_t{1} << kFamilyShift);

Choice choice_of(const moetune_family& handle, const moetune_choice* given) {
  const moetune_choice& choice = required(given, "the choice");
  const Family& family = *handle.family;
  if (choice.kind > MOETUNE_CHOICE_PINNED || choice.entry >> kFamilyShift != handle.number)
    throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "the choice is not one that moetune_pick returned for this family, " +
                                                     family.kernel().name() + " " + family.specialization());
  return {choice.entry & ((std::uint32_t{1} << kFamilyShift) - 1), static_cast<ChoiceKind>(choice.kind),
          extents_of(family, choice.extents, family.kernel().free_dimensions().size())};
}

void give(const moetune_family& handle, const Choice& choice, moetune_choice& out) {
  out = {};
  out.entry = choice.entry | std::uint32_t{handle.number} << kFamilyShift;
  out.kind = static_cast<std::uint32_t>(choice.kind);
  std::copy(choice.extents.begin(), choice.extents.end(), out.extents);
}

void give_text(const std::string& text, char* out, std::size_t capacity, std::size_t* needed) {
  if (capacity > 0) {
    const std::size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(&required(out, "the text"), text.data(), size);
    out[size] = '\0';
  }
  if (needed != nullptr) *needed = text.size() + 1;
}

template <std::size_t capacity>
void give_text(const std::string& text, char (&out)[capacity]) {
  if (text.size() >= capacity) throw RuntimeError(MOETUNE_UNSUPPORTED, "a problem's text is too long");
  give_text(text, out, capacity, nullptr);
}

void give(const ShownTensor& tensor, moetune_slot& out) {
  give_text(tensor.name.text(), out.name);
  out.role = static_cast<std::int32_t>(tensor.role);
  out.present = tensor.present ? 1 : 0;
  const DLPackType type = dlpack_type(tensor.dtype);
  out.code = type.code;
  out.bits = type.bits;
  out.lanes = 1;
  out.rank = static_cast<std::int32_t>(tensor.shape.size());
  std::copy(tensor.shape.begin(), tensor.shape.end(), out.shape);
  std::copy(tensor.dimensions.begin(), tensor.dimensions.end(), out.dimensions);
}

// Throws unless the caller has set the size of a structure that begins with it.
template <typename Sized>
Sized& sized(Sized* given, const char* name) {
  Sized& out = required(given, name);
  if (out.size >= sizeof(Sized)) return out;
  throw RuntimeError(MOETUNE_INVALID_ARGUMENT, std::string(name) + ".size is " + std::to_string(out.size) +
                                                   "; set it to its sizeof, " + std::to_string(sizeof(Sized)));
}

}  // namespace
}  // namespace moetune

using namespace moetune;

extern "C" {

const char* moetune_status_name(moetune_status status) {
  static constexpr const char* kNames[] = {
      "MOETUNE_OK",          "MOETUNE_INVALID_ARGUMENT", "MOETUNE_NOT_TUNED", "MOETUNE_UNKNOWN_NAME",
      "MOETUNE_UNSUPPORTED", "MOETUNE_WRONG_DEVICE",     "MOETUNE_BAD_FILE",  "MOETUNE_NO_DRIVER",
      "MOETUNE_CUDA_ERROR",  "MOETUNE_OUT_OF_MEMORY",    "MOETUNE_INTERNAL"};
  const auto index = static_cast<std::size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "unknown status";
}

const char* moetune_last_error(void) { return last_error.c_str(); }

uint32_t moetune_abi_version(void) { return MOETUNE_ABI_MAJOR << 16 | MOETUNE_ABI_MINOR; }

const char* moetune_version(void) {
  static const std::string text(version());
  return text.c_str();
}

moetune_status moetune_open(const moetune_open_options* options, moetune_runtime** runtime) {
  return guarded([&] {
    moetune_runtime*& out = required(runtime, "runtime");
    out = new moetune_runtime(options_of(options));
  });
}

void moetune_close(moetune_runtime* runtime) {
  if (runtime == nullptr || runtime->mark != moetune_runtime::kMark) return;
  runtime->mark = 0;
  for (moetune_family& family : runtime->families) family.mark = 0;
  delete runtime;
}

moetune_status moetune_refresh(moetune_runtime* runtime, const char* generation) {
  return guarded([&] { runtime_of(runtime).refresh(generation == nullptr ? "" : generation); });
}

moetune_status moetune_prepare(moetune_runtime* runtime, char generation[33]) {
  return guarded([&] {
    required(generation, "generation");
    give_text(runtime_of(runtime).prepare(), generation, 33, nullptr);
  });
}

moetune_status moetune_generation(moetune_runtime* runtime, char text[33]) {
  return guarded([&] { give_text(runtime_of(runtime).generation(), text, 33, nullptr); });
}

moetune_status moetune_device(moetune_runtime* runtime, int32_t* ordinal) {
  return guarded([&] { required(ordinal, "ordinal") = runtime_of(runtime).ordinal(); });
}

moetune_status moetune_warnings(moetune_runtime* runtime, char* text, size_t capacity, size_t* needed) {
  return guarded([&] { give_text(to_utf8(runtime_of(runtime).warnings()), text, capacity, needed); });
}

moetune_status moetune_family_open(moetune_runtime* runtime, const char* kernel, const char* specialization,
                                   moetune_family** family) {
  return guarded([&] {
    moetune_family*& out = required(family, "family");
    Runtime& opened = runtime_of(runtime);
    Family& found = opened.family(&required(kernel, "kernel"), specialization == nullptr ? "" : specialization);
    const std::lock_guard lock(runtime->mutex);
    for (moetune_family& known : runtime->families) {
      if (known.family == &found) {
        out = &known;
        return;
      }
    }
    const std::size_t number = runtime->families.size();
    if (number > std::numeric_limits<std::uint8_t>::max())
      throw RuntimeError(MOETUNE_UNSUPPORTED, "a runtime serves at most 256 families");
    out = &runtime->families.emplace_back();
    out->number = static_cast<std::uint8_t>(number);
    out->runtime = &opened;
    out->family = &found;
  });
}

moetune_status moetune_pick(moetune_family* family, const int64_t* extents, size_t count, int64_t total,
                            moetune_choice* choice) {
  return guarded([&] {
    const Family& chosen = family_of(family);
    give(*family, chosen.pick(extents_of(chosen, extents, count), total), required(choice, "choice"));
  });
}

moetune_status moetune_pick_range(moetune_family* family, const int64_t* extents, size_t count, int64_t last,
                                  int64_t total, moetune_choice* choice) {
  return guarded([&] {
    const Family& chosen = family_of(family);
    give(*family, chosen.pick_range(extents_of(chosen, extents, count), last, total), required(choice, "choice"));
  });
}

moetune_status moetune_explain(moetune_family* family, const moetune_choice* choice, char* text, size_t capacity,
                               size_t* needed) {
  return guarded([&] {
    const Family& known = family_of(family);
    give_text(explanation(known, choice_of(*family, choice)), text, capacity, needed);
  });
}

moetune_status moetune_choice_workspace(moetune_family* family, const moetune_choice* choice, size_t* bytes) {
  return guarded([&] {
    const Family& known = family_of(family);
    required(bytes, "bytes") = static_cast<size_t>(known.workspace_bytes(choice_of(*family, choice)));
  });
}

moetune_status moetune_family_workspace(moetune_family* family, const int64_t* extents, size_t count, size_t* bytes) {
  return guarded([&] {
    Family& known = family_of(family);
    required(bytes, "bytes") =
        static_cast<size_t>(family->runtime->promise_workspace(known, extents_of(known, extents, count)));
  });
}

moetune_status moetune_offer_workspace(moetune_family* family, const int64_t* extents, size_t count, size_t bytes) {
  return guarded([&] {
    Family& known = family_of(family);
    family->runtime->offer_workspace(known, extents_of(known, extents, count), bytes);
  });
}

moetune_status moetune_wanted_workspace(moetune_family* family, const int64_t* extents, size_t count, size_t* bytes) {
  return guarded([&] {
    Family& known = family_of(family);
    required(bytes, "bytes") =
        static_cast<size_t>(family->runtime->wanted_workspace(known, extents_of(known, extents, count)));
  });
}

moetune_status moetune_workspace_init(moetune_runtime* runtime, void* workspace, size_t bytes, void* stream) {
  return guarded([&] { runtime_of(runtime).zero_counters(workspace, bytes, cuda::StreamRef(stream)); });
}

moetune_status moetune_launch(moetune_family* family, const moetune_choice* choice, const moetune_arguments* arguments,
                              void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    Family& known = family_of(family);
    const moetune_arguments& given = required(arguments, "arguments");
    Call call;
    std::copy(std::begin(given.integers), std::end(given.integers), call.integers.begin());
    std::copy(std::begin(given.reals), std::end(given.reals), call.reals.begin());
    const cuda::StreamRef on(stream);
    family->runtime->launch(known, choice_of(*family, choice), call, given.tensors, workspace, workspace_bytes, on);
  });
}

moetune_status moetune_bind(moetune_family* family, const DLTensor* const* tensors, size_t tensor_count,
                            const char* options, moetune_arguments* arguments, int64_t extents[MOETUNE_MAX_EXTENTS],
                            size_t* count) {
  return guarded([&] {
    const FamilyInterface& interface = family_of(family).interface();
    moetune_arguments& given = required(arguments, "arguments");
    std::int64_t* const most_given = &required(extents, "extents");
    std::size_t& count_given = required(count, "count");
    const std::span<const TensorSlot> slots = interface.tensors();
    if (tensor_count > slots.size())
      throw RuntimeError(MOETUNE_INVALID_ARGUMENT, "there are " + std::to_string(tensor_count) +
                                                       " tensors; the kernel takes " + std::to_string(slots.size()));
    if (tensor_count > 0) required(tensors, "tensors");
    moetune_arguments made{};
    FixedVector<ViewedTensor, MOETUNE_MAX_TENSORS> viewed;
    std::array<const TensorView*, MOETUNE_MAX_TENSORS> views{};
    for (std::size_t i = 0; i < tensor_count; ++i) {
      if (tensors[i] == nullptr) continue;
      if (!slots[i].present)
        throw RuntimeError(MOETUNE_INVALID_ARGUMENT,
                           "tensor '" + slots[i].name.text() + "' is none of this family's; pass NULL");
      const ViewedTensor& one =
          viewed.push_back(view_tensor(*tensors[i], slots[i].name.view(), family->runtime->ordinal()));
      views[i] = &one.view;
      made.tensors[i] = one.address;
    }
    Extents most;
    Call call;
    interface.bind({views.data(), slots.size()}, options == nullptr ? "" : options, most, call);
    std::copy(call.integers.begin(), call.integers.end(), made.integers);
    std::copy(call.reals.begin(), call.reals.end(), made.reals);
    given = made;
    std::copy(most.begin(), most.end(), most_given);
    count_given = most.size();
  });
}

moetune_status moetune_show_call(const char* kernel, const DLTensor* const* tensors, size_t tensor_count,
                                 const char* facts, moetune_shown_call* call) {
  return guarded([&] {
    moetune_shown_call& out = sized(call, "call");
    const Kernel& known = named_kernel(&required(kernel, "kernel"));
    if (tensor_count > 0) required(tensors, "tensors");
    const std::vector<ShownTensor> slots = known.shown_call({}, "").tensors;
    std::vector<ViewedTensor> viewed(tensor_count);
    std::vector<const TensorView*> views(tensor_count);
    for (std::size_t i = 0; i < tensor_count; ++i) {
      if (tensors[i] == nullptr) continue;
      viewed[i] = view_tensor(*tensors[i], i < slots.size() ? slots[i].name.view() : "");
      views[i] = &viewed[i].view;
    }
    const ShownCall shown = known.shown_call(views, facts == nullptr ? "" : facts);
    auto made = std::make_unique<moetune_shown_call>();
    made->size = sizeof(moetune_shown_call);
    made->integer_count = shown.integers;
    made->real_count = shown.reals;
    for (const ShownTensor& tensor : shown.tensors) give(tensor, made->slots[made->slot_count++]);
    for (const std::int64_t extent : shown.extents) made->extents[made->extent_count++] = extent;
    give_text(shown.specialization, made->specialization);
    give_text(shown.options, made->options);
    give_text(shown.problem, made->problem);
    out = *made;
  });
}

moetune_status moetune_count(moetune_runtime* runtime, moetune_counts* counts) {
  return guarded([&] {
    moetune_counts& out = sized(counts, "counts");
    const UsageCounts sum = runtime_of(runtime).counts();
    out = {sizeof(moetune_counts), sum.exact, sum.nearest, sum.by_default, sum.pinned, sum.misses, sum.launches};
  });
}

moetune_status moetune_write_misses(moetune_runtime* runtime, const char* path) {
  return guarded([&] { runtime_of(runtime).write_misses(&required(path, "path")); });
}

}  // extern "C"
