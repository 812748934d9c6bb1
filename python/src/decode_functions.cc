// moetune.torch's operator as a function of Python, and what its helper calls.
#include "decode_launch.h"
#include "packed.h"

namespace moetune::python {
namespace {

// The arguments: the tensors by slot, then these.
enum Place : int32_t {
  kScale = kDecodeTensors,
  kHeadsFirst,
  kWindow,
  kMaxContext,
  kMinContext,
  kTotalTokens,
  kCapturing,
  kHostIsDevice  // of device 0: for the scripted driver of the tests
};

ffi::Any decode(const Args& args) {
  static constexpr const char* kNames[kDecodeTensors] = {
      "q", "k_cache", "v_cache", "page_table", "seq_lens", "out", "lse", "sinks", "k_scale", "v_scale"};
  DecodeRequest request;
  DLTensor relabelled[kDecodeTensors];
  const bool host_is_device = args.integer(kHostIsDevice, "host_is_device") != 0;
  for (int slot = 0; slot < kDecodeTensors; ++slot) {
    request.tensors[slot] = tensor_or_null(args[slot], kNames[slot]);
    if (!host_is_device || request.tensors[slot] == nullptr) continue;
    relabelled[slot] = *request.tensors[slot];
    relabelled[slot].device = {kDLCUDA, 0};
    request.tensors[slot] = &relabelled[slot];
  }
  if (const auto scale = args[kScale].as<double>()) {
    request.scale = *scale;
  } else {
    request.scale = static_cast<double>(args.integer(kScale, "scale"));
  }
  request.heads_first = args.integer(kHeadsFirst, "layout") != 0;
  request.window = args.integer(kWindow, "window");
  request.max_context = args.integer(kMaxContext, "max_context");
  request.min_context = args.integer(kMinContext, "min_context");
  request.total_tokens = args.integer(kTotalTokens, "total_tokens");
  request.capturing = args.integer(kCapturing, "capturing") != 0;
  if (const DLTensor* q = request.tensors[MOETUNE_DECODE_Q])
    request.stream = stream_of(ffi::AnyView(), q->device.device_id);
  launch_decode(request);
  return nullptr;
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

void decode_set_helper(const ffi::Function& helper) { set_decode_helper(helper); }

}  // namespace
}  // namespace moetune::python

namespace mp = moetune::python;

MOETUNE_EXPORT_PACKED(decode, mp::decode)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_set_helper, mp::decode_set_helper)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_forget_families, mp::decode_forget_families)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_add_workspace, mp::decode_add_workspace)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_workspace_bytes, mp::decode_workspace_bytes)
