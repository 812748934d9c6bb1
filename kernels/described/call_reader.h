// Finds the problem of a call from its tensors: a dimension is what a type, a size or the presence of a tensor says, or
// what the caller states beside them. Stateless; thread-safe. Errors are BadInput and begin with the kernel's name.
#pragma once

#include <span>
#include <string_view>

#include "kernels/described/description.h"
#include "kernels/shown_call.h"

namespace moetune {

// `tensors` by slot, null for none; what is written may be missing. Does not check strides. `facts` are `name=value`
// pairs of dimensions. `problem` gets the values of all dimensions, `call` all but its fields.
void read_call(const Description& description, std::span<const TensorView* const> tensors, std::string_view facts,
               Assignment& problem, ShownCall& call);

}  // namespace moetune
