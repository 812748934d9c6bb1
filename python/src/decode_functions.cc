// One call of moetune.torch's operator: pick, bind and launch in one crossing from Python.
#include <cmath>

#include "decode_table.h"
#include "packed.h"

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

// What Python does before it calls again.
enum Step : int64_t { kLaunched = 0, kOpenFamily = 1, kGrowWorkspace = 2 };

// The arguments of every function here: the tensors by slot, then these.
enum Place : int32_t {
  kScale = kDecodeTensors,
  kHeadsFirst,
  kWindow,
  kMaxContext,
  kMinContext,
  kTotalTokens,
  kCapturing,
  kHostIsDevice,  // of device 0: for the scripted driver of the tests
  kEnd
};

class DecodeCall {
 public:
  explicit DecodeCall(const Args& args) : args_(args) {
    static constexpr const char* kNames[kDecodeTensors] = {
        "q", "k_cache", "v_cache", "page_table", "seq_lens", "out", "lse", "sinks", "k_scale", "v_scale"};
    const bool host_is_device = args.integer(kHostIsDevice, "host_is_device") != 0;
    for (int slot = 0; slot < kDecodeTensors; ++slot) {
      tensors[slot] = tensor_or_null(args[slot], kNames[slot]);
      if (!host_is_device || tensors[slot] == nullptr) continue;
      relabelled_[slot] = *tensors[slot];
      relabelled_[slot].device = {kDLCUDA, 0};
      tensors[slot] = &relabelled_[slot];
    }
    heads_first = args.integer(kHeadsFirst, "layout") != 0;
    key = decode_key(tensors, heads_first, args.integer(kWindow, "window"));
  }
  int64_t integer(Place place, const char* name) const { return args_.integer(place, name); }
  double scale() const {
    if (const auto scale = args_[kScale].as<double>()) return *scale;
    return static_cast<double>(args_.integer(kScale, "scale"));
  }

  DecodeTensors tensors;
  bool heads_first = false;
  DecodeKey key{};

 private:
  const Args& args_;
  DLTensor relabelled_[kDecodeTensors];
};

moetune_choice choose(const DecodeCall& call, const FamilyObj& family, const int64_t* most) {
  const int64_t stated = call.integer(kMaxContext, "max_context");
  int64_t extents[] = {most[0], most[1], stated > 0 ? stated : most[2]};
  if (stated > most[2])
    fail(MOETUNE_INVALID_ARGUMENT, "decode_attention: max_context is " + std::to_string(stated) +
                                       "; page_table and cache have room for " + std::to_string(most[2]));
  moetune_choice choice;
  const int64_t least = call.integer(kMinContext, "min_context");
  if (least == 0 && call.integer(kCapturing, "capturing") == 0) {
    check(moetune_pick(family.handle, extents, 3, call.integer(kTotalTokens, "total_tokens"), &choice));
    return choice;
  }
  const int64_t last = extents[2];
  extents[2] = least > 0 ? least : 1;
  check(moetune_pick_range(family.handle, extents, 3, last, &choice));
  return choice;
}

ffi::Any decode(const Args& args) {
  const DecodeCall call(args);
  const auto family = DecodeTable::instance().family(call.key);
  if (!family.has_value() || (*family)->runtime->is_closed()) return static_cast<int64_t>(kOpenFamily);
  const Use use(*(*family)->runtime.get());
  moetune_arguments arguments;
  int64_t most[MOETUNE_MAX_EXTENTS];
  size_t count = 0;
  check(moetune_bind((*family)->handle, reinterpret_cast<const moetune_DLTensor* const*>(call.tensors),
                     kDecodeTensors, call.heads_first ? "layout=heads_first" : "layout=tokens_first",
                     &arguments, most, &count));
  if (most[0] == 0) return static_cast<int64_t>(kLaunched);  // no sequences
  arguments.reals[MOETUNE_DECODE_SCALE] = call.scale();
  const moetune_choice choice = choose(call, *family->get(), most);
  void* const stream = stream_of(ffi::AnyView(), static_cast<int>(call.key.device));
  const Memory workspace = DecodeTable::instance().workspace(call.key.device, stream);
  if (workspace.address == nullptr) return static_cast<int64_t>(kGrowWorkspace);
  const moetune_status status =
      moetune_launch((*family)->handle, &choice, &arguments, workspace.address, workspace.bytes, stream);
  if (status == MOETUNE_OUT_OF_MEMORY) {
    const std::string sentence = moetune_last_error();
    size_t needed = 0;
    if (moetune_choice_workspace((*family)->handle, &choice, &needed) == MOETUNE_OK &&
        needed > workspace.bytes)
      return static_cast<int64_t>(kGrowWorkspace);
    fail(status, sentence);
  }
  check(status);
  return static_cast<int64_t>(kLaunched);
}

ffi::Any decode_specialization(const Args& args) {
  return ffi::String(DecodeCall(args).key.specialization());
}

// (decode's, family)
ffi::Any decode_add_family(const Args& args) {
  if (const auto family = args[kEnd].as<Family>()) {
    DecodeTable::instance().add(DecodeCall(args).key, *family);
    return nullptr;
  }
  throw ffi::Error("TypeError", "a moetune.Family is wanted", "");
}

void decode_forget_families(int64_t device) { DecodeTable::instance().forget(device); }

// (device, stream, tensor)
void decode_add_workspace(int64_t device, int64_t stream, const ffi::Tensor& tensor) {
  DecodeTable::instance().add_workspace(device, reinterpret_cast<void*>(stream), tensor);
}

int64_t decode_workspace_bytes(int64_t device, int64_t stream) {
  return static_cast<int64_t>(
      DecodeTable::instance().workspace(device, reinterpret_cast<void*>(stream)).bytes);
}

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

MOETUNE_EXPORT_PACKED(decode, mp::decode)
MOETUNE_EXPORT_PACKED(decode_specialization, mp::decode_specialization)
MOETUNE_EXPORT_PACKED(decode_add_family, mp::decode_add_family)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_forget_families, mp::decode_forget_families)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_add_workspace, mp::decode_add_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_workspace_bytes, mp::decode_workspace_bytes)
