// torch.ops.moetune.decode_attention.
#pragma once

#include "operator.h"

namespace moetune::python {

// The order of Given::integers.
enum DecodeInteger { kHeadsFirst, kWindow, kMaxContext, kMinContext, kTotalTokens };

const Operator& decode_operator();

}  // namespace moetune::python
