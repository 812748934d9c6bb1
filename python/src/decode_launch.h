// One call of moetune.torch's operator: pick, bind and launch together.
#pragma once

#include "decode_table.h"

namespace moetune::python {

struct DecodeRequest {
  DecodeTensors tensors{};
  bool heads_first = false;
  double scale = 0;
  int64_t window = 0, max_context = 0, min_context = 0, total_tokens = 0;  // as the operator's
  void* stream = nullptr;
  bool capturing = false;
};

// What is asked of the helper.
enum Step : int64_t { kLaunched = 0, kOpenFamily = 1, kGrowWorkspace = 2 };

// Opens families and allocates workspaces: a function of Python, called with (step, device, specialization, batch,
// kv_heads, context, stream, capturing) when a call needs it. Of kOpenFamily it returns the Family.
void set_decode_helper(ffi::Function helper);

// Enqueues the call. Thread-safe; takes the GIL only if it asks the helper.
void launch_decode(const DecodeRequest& request);

}  // namespace moetune::python
