// A CUDA source whose kernel is annotated for Kernel Launcher: "#pragma kernel tune(block = 32, 64)" and so on in front
// of the function. What it says becomes a kernel.json (docs/new_kernel.md); of the C++ only the annotated function's
// head is read.
//
// A pure function; thread-safe. Errors: BadInput with file and line.
#pragma once

#include <string>
#include <string_view>

#include "replay/kernel_import.h"

namespace moetune {

// A type of C++, as kernel.json names it: of elements, and of arguments ("" where it has none).
struct CudaType {
  std::string_view cuda, element, number;
};
const CudaType* find_cuda_type(std::string_view name);  // nullptr: none

bool is_annotated(std::string_view text);

// Everything but the count of legal configurations and whether the description is sound.
ImportedKernel read_annotated(std::string_view text, const std::string& file);

}  // namespace moetune
