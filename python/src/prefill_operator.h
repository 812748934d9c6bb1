// torch.ops.moetune.prefill_attention.
#pragma once

#include "operator.h"

namespace moetune::python {

// The order of Given::integers.
enum PrefillInteger {
  kPrefillHeadsFirst,
  kPrefillWindow,
  kPrefillCausal,
  kPrefillMaxQ,
  kPrefillMaxKv,
  kPrefillMinKv
};

const Operator& prefill_operator();

}  // namespace moetune::python
