// Picking, binding and launching: the hot path. Launches are called without the GIL, the others with it.
#include <tvm/ffi/container/array.h>

#include <chrono>

#include "packed.h"

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

struct Extents {
  int64_t values[MOETUNE_MAX_EXTENTS]{};
  size_t count = 0;
};

Extents read_extents(const Args& args, int32_t from) {
  Extents extents;
  if (args.size() - from > MOETUNE_MAX_EXTENTS)
    fail(MOETUNE_INVALID_ARGUMENT, "no kernel has more than 4 free dimensions");
  for (int32_t i = from; i < args.size(); ++i) extents.values[extents.count++] = args.integer(i, "an extent");
  return extents;
}

const FamilyObj& family_at(const Args& args) { return args.object<FamilyObj>(0, "Family"); }

Family reference_to(const FamilyObj& family) { return ffi::GetRef<Family>(&const_cast<FamilyObj&>(family)); }

// (family, total, *extents) -> Choice
ffi::Any pick(const Args& args) {
  const FamilyObj& family = family_at(args);
  const Extents extents = read_extents(args, 2);
  const Use use(*family.runtime.get());
  moetune_choice choice;
  check(moetune_pick(family.handle, extents.values, extents.count, args.integer(1, "total"), &choice));
  return Choice(ffi::make_object<ChoiceObj>(reference_to(family), choice, extents.count));
}

// (family, last, total, *extents) -> Choice
ffi::Any pick_range(const Args& args) {
  const FamilyObj& family = family_at(args);
  const Extents extents = read_extents(args, 3);
  const Use use(*family.runtime.get());
  moetune_choice choice;
  check(moetune_pick_range(family.handle, extents.values, extents.count, args.integer(1, "last"),
                           args.integer(2, "total"), &choice));
  return Choice(ffi::make_object<ChoiceObj>(reference_to(family), choice, extents.count));
}

// (family, *extents) -> bytes, as this function of the C ABI says.
ffi::Any workspace_by(decltype(&moetune_family_workspace) function, const Args& args) {
  const FamilyObj& family = family_at(args);
  const Extents extents = read_extents(args, 1);
  const Use use(*family.runtime.get());
  size_t bytes = 0;
  check(function(family.handle, extents.values, extents.count, &bytes));
  return static_cast<int64_t>(bytes);
}

ffi::Any family_workspace(const Args& args) { return workspace_by(moetune_family_workspace, args); }

ffi::Any wanted_workspace(const Args& args) { return workspace_by(moetune_wanted_workspace, args); }

// (family, bytes, *extents)
ffi::Any offer_workspace(const Args& args) {
  const FamilyObj& family = family_at(args);
  const int64_t bytes = args.integer(1, "bytes");
  const Extents extents = read_extents(args, 2);
  const Use use(*family.runtime.get());
  if (bytes < 0) fail(MOETUNE_INVALID_ARGUMENT, "bytes is negative");
  check(moetune_offer_workspace(family.handle, extents.values, extents.count, static_cast<size_t>(bytes)));
  return nullptr;
}

int64_t choice_workspace(const Choice& choice) {
  const Use use(*choice->family->runtime.get());
  size_t bytes = 0;
  check(moetune_choice_workspace(choice->family->handle, &choice->value, &bytes));
  return static_cast<int64_t>(bytes);
}

// entry, kind, extents
ffi::Array<int64_t> choice_facts(const Choice& choice) {
  ffi::Array<int64_t> facts{choice->value.entry, choice->value.kind};
  for (size_t i = 0; i < choice->extent_count; ++i) facts.push_back(choice->value.extents[i]);
  return facts;
}

Choice make_choice(const Family& family, int64_t entry, int64_t kind, const ffi::Array<int64_t>& extents) {
  if (entry < 0 || entry > UINT32_MAX || kind < 0 || kind > UINT32_MAX || extents.size() > MOETUNE_MAX_EXTENTS)
    fail(MOETUNE_INVALID_ARGUMENT, "the choice is not one that pick returned");
  moetune_choice choice{static_cast<uint32_t>(entry), static_cast<uint32_t>(kind), {}};
  std::copy(extents.begin(), extents.end(), choice.extents);
  return Choice(ffi::make_object<ChoiceObj>(family, choice, extents.size()));
}

// (runtime, workspace, stream)
ffi::Any init_workspace(const Args& args) {
  const auto& runtime = args.object<RuntimeObj>(0, "Runtime");
  const Memory memory = memory_of(args[1], runtime.device());
  const Use use(runtime);
  check(moetune_workspace_init(use.handle(), memory.address, memory.bytes, stream_of(args[2], runtime.device())));
  return nullptr;
}

// (family, options, *tensors) -> Arguments
ffi::Any bind(const Args& args) {
  const FamilyObj& family = family_at(args);
  const auto options = args[1].cast<ffi::String>();
  if (args.size() - 2 > MOETUNE_MAX_TENSORS) fail(MOETUNE_INVALID_ARGUMENT, "no kernel has more than 16 tensors");
  auto bound = ffi::make_object<ArgumentsObj>();
  const DLTensor* tensors[MOETUNE_MAX_TENSORS]{};
  size_t count = 0;
  for (int32_t i = 2; i < args.size(); ++i, ++count) {
    const DLTensor* tensor = tensor_or_null(args[i], "a tensor");
    tensors[count] = tensor;
    if (tensor == nullptr) continue;
    bound->device = tensor->device.device_id;
    if (auto held = args[i].as<ffi::Tensor>()) bound->tensors.push_back(*std::move(held));
  }
  bound->family = reference_to(family);
  const Use use(*family.runtime.get());
  check(moetune_bind(family.handle, tensors, count, c_text(options, "an option"), &bound->value, bound->extents,
                     &bound->extent_count));
  return Arguments(std::move(bound));
}

// By hand, as C's moetune_arguments: addresses or tensors by slot.
Arguments make_arguments(const ffi::Array<ffi::Any>& tensors, const ffi::Array<int64_t>& integers,
                         const ffi::Array<double>& reals) {
  if (tensors.size() > MOETUNE_MAX_TENSORS || integers.size() > MOETUNE_MAX_INTEGERS ||
      reals.size() > MOETUNE_MAX_REALS)
    fail(MOETUNE_INVALID_ARGUMENT, "arguments are at most 16 tensors, 24 integers and 4 reals");
  auto made = ffi::make_object<ArgumentsObj>();
  size_t slot = 0;
  for (const ffi::Any& given : tensors) {
    if (const auto address = given.as<int64_t>()) {
      made->value.tensors[slot] = reinterpret_cast<void*>(*address);
    } else if (const DLTensor* tensor = tensor_or_null(given, "a tensor")) {
      made->value.tensors[slot] = static_cast<char*>(tensor->data) + tensor->byte_offset;
      made->device = tensor->device.device_id;
      if (auto held = given.as<ffi::Tensor>()) made->tensors.push_back(*std::move(held));
    }
    ++slot;
  }
  std::copy(integers.begin(), integers.end(), made->value.integers);
  std::copy(reals.begin(), reals.end(), made->value.reals);
  return Arguments(std::move(made));
}

// tensors, integers, reals, extents
ffi::Array<ffi::Any> arguments_facts(const Arguments& arguments) {
  ffi::Array<int64_t> addresses, integers, extents;
  ffi::Array<double> reals;
  for (void* address : arguments->value.tensors) addresses.push_back(reinterpret_cast<int64_t>(address));
  for (const int64_t value : arguments->value.integers) integers.push_back(value);
  for (const double value : arguments->value.reals) reals.push_back(value);
  for (size_t i = 0; i < arguments->extent_count; ++i) extents.push_back(arguments->extents[i]);
  return {addresses, integers, reals, extents};
}

struct Launch {
  explicit Launch(const Args& args)
      : family(family_at(args)),
        choice(args.object<ChoiceObj>(1, "Choice")),
        arguments(args.object<ArgumentsObj>(2, "Arguments")),
        memory(memory_of(args[3], family.runtime->device())),
        stream(stream_of(args[4], family.runtime->device())) {
    if (!is_this(choice.family)) fail(MOETUNE_INVALID_ARGUMENT, "the choice is another family's");
    if (memory.address == nullptr && stream == nullptr && args[4] == nullptr)
      fail(MOETUNE_INVALID_ARGUMENT,
           "without a workspace, whose framework's current stream is meant, state the stream (0: the default one)");
    if (arguments.family && !is_this(*arguments.family))
      fail(MOETUNE_INVALID_ARGUMENT, "the arguments were bound by another family");
    if (arguments.device >= 0 && arguments.device != family.runtime->device())
      fail(MOETUNE_WRONG_DEVICE, "the arguments' tensors are on device " + std::to_string(arguments.device) +
                                     "; the runtime is of device " + std::to_string(family.runtime->device()));
    for (size_t i = 0; i < arguments.extent_count; ++i) {
      if (choice.value.extents[i] > arguments.extents[i]) refuse_extents();
    }
  }
  // Not by the handle alone, which a family of a later runtime may have again.
  bool is_this(const Family& other) const {
    return other.get() == &family || (other->handle == family.handle && other->runtime.get() == family.runtime.get());
  }
  [[noreturn]] void refuse_extents() const {
    const auto text = [&](const int64_t* extents) {
      std::string all;
      for (size_t i = 0; i < arguments.extent_count; ++i) all += (i > 0 ? ", " : "") + std::to_string(extents[i]);
      return "(" + all + ")";
    };
    fail(MOETUNE_INVALID_ARGUMENT, "the choice is for extents of " + text(choice.value.extents) +
                                       "; the tensors have room for " + text(arguments.extents));
  }
  void run() const {
    check(moetune_launch(family.handle, &choice.value, &arguments.value, memory.address, memory.bytes, stream));
  }

  const FamilyObj& family;
  const ChoiceObj& choice;
  const ArgumentsObj& arguments;
  const Memory memory;
  void* const stream;
};

// (family, choice, arguments, workspace, stream)
ffi::Any launch(const Args& args) {
  const Launch launch(args);
  const Use use(*launch.family.runtime.get());
  launch.run();
  return nullptr;
}

// (launch's, count) -> seconds that `count` calls of moetune_launch take, for benchmarks.
ffi::Any time_launches(const Args& args) {
  const Launch launch(args);
  const Use use(*launch.family.runtime.get());
  const int64_t count = args.integer(5, "count");
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) launch.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

MOETUNE_EXPORT_PACKED(pick, mp::pick)
MOETUNE_EXPORT_PACKED(pick_range, mp::pick_range)
MOETUNE_EXPORT_PACKED(family_workspace, mp::family_workspace)
MOETUNE_EXPORT_PACKED(wanted_workspace, mp::wanted_workspace)
MOETUNE_EXPORT_PACKED(offer_workspace, mp::offer_workspace)
MOETUNE_EXPORT_PACKED(init_workspace, mp::init_workspace)
MOETUNE_EXPORT_PACKED(bind, mp::bind)
MOETUNE_EXPORT_PACKED(launch, mp::launch)
MOETUNE_EXPORT_PACKED(time_launches, mp::time_launches)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(choice_workspace, mp::choice_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(choice_facts, mp::choice_facts)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_choice, mp::make_choice)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_arguments, mp::make_arguments)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(arguments_facts, mp::arguments_facts)
