// Every kernel there is, by name: those that are built in, and the user's own (kernels/described/folders.h). The
// variable MOETUNE_KERNELS is read at each call. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/described/folders.h"
#include "kernels/kernel.h"

namespace moetune {

// The built-in ones in a fixed order, then the user's by name; the references stay valid for the life of the process.
const std::vector<const Kernel*>& all_kernels();

// Makes a kernel known that a pack describes, for the life of the process. If one of its name is known, the pack's
// kernel.json must launch it in the same way. Returns "" if the pack's winners of the kernel may be used, else why not.
std::string add_packed_kernel(const std::string& name, const std::string& text, const std::string& pack);

// Null for an unknown name.
const Kernel* known_kernel(std::string_view name);

// The user's folders that are no kernels, in the order in which they were found.
const std::vector<BrokenKernel>& broken_kernels();

// Throws BadInput for an unknown name, suggesting the nearest, and for one of a broken folder, with the reason.
const Kernel& find_kernel(std::string_view name);

// The problem by what differs from the kernel's default, or from a preset if that is shorter:
// "batch=16", "qwen3-30b-a3b batch=16"; "default". The text itself for a kernel or a problem that moetune
// does not know.
std::string brief_problem(const std::string& kernel, const std::string& problem);

}  // namespace moetune
