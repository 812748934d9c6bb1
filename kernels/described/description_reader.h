// Shared by the readers of a description's parts: names, expressions and the checks of both. Not for other rooms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/located_json.h"
#include "kernels/described/description.h"

namespace moetune {

// Throws unless the text is letters, digits and _, not a digit first, and no longer than a Name.
std::string read_name(const JsonPlace& place);

// An integer or an expression, as the last of the description's formulas.
Formula read_formula(const JsonPlace& place, Description& description);

// "f32", or "problem.NAME" of a dimension whose choices are all types.
TypeChoice read_type(const JsonPlace& place, const Description& description);

// The names that an expression may read beside dimensions.
struct MayRead {
  bool parameters = false, launch_parameters = true, device = false, call = false, free_dimensions = true,
       element = false;
};
// Throws for a name that the description lacks, or one that may not be read here, also through a let.
void check_reads(const Expression& expression, const Description& description, const MayRead& may);

// A tensor's contents, for every other seed: one file or two of the kernel's folder.
std::vector<std::string> read_files(const JsonPlace& place);

// The fill of a tensor whose name, type and role are known; `place` is the tensor.
void read_fill(const JsonPlace& place, Description& description, DescribedTensor& tensor);

// A source and its launches: of the kernel itself, or of its reference.
DescribedProgram read_program(const JsonPlace& place, Description& description);

}  // namespace moetune
