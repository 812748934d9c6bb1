// decode_attention as a server calls it: its tensors, their shapes and strides, and its place in a table.
#pragma once

#include <memory>

#include "kernels/decode_attention/problem.h"
#include "kernels/family_interface.h"

namespace moetune {

std::unique_ptr<const FamilyInterface> decode_attention_family(const DecodeShape& shape);

}  // namespace moetune
