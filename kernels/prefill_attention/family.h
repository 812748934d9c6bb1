// prefill_attention as a server calls it: its tensors, their shapes and strides, and its place in a table.
#pragma once

#include <memory>

#include "kernels/family_interface.h"
#include "kernels/prefill_attention/problem.h"

namespace moetune {

std::unique_ptr<const FamilyInterface> prefill_attention_family(const PrefillShape& shape);

}  // namespace moetune
