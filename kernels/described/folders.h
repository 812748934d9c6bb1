// The user's own kernels: each is a folder NAME with kernel.json, in one of the folders that the environment variable
// MOETUNE_KERNELS names, with colons between them. A folder that holds a kernel.json itself counts as one kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace moetune {

// A folder that is no kernel, and why.
struct BrokenKernel {
  std::string name, folder, reason;
};

struct DescribedKernels {
  std::vector<std::unique_ptr<const Kernel>> kernels;  // by name
  std::vector<BrokenKernel> broken;
};

// A kernel that moetune brings with it: templates/NAME/kernel.json beside its sources.
std::unique_ptr<const Kernel> built_in_description(const std::string& name);

// Reads them all, and adds their files to the resources (base/resources.h). A folder whose kernel has a name in
// `taken`, or of a kernel that was found earlier, is broken. Throws nothing for what is wrong with a folder.
DescribedKernels load_described_kernels(const char* folders, const std::vector<std::string>& taken);

// The kernel.json of a user's kernel that a folder or a pack described; "" for others.
std::string own_description(const std::string& name);

// The text of a kernel.json without what it says of tuning: equal ones launch one kernel in one way. Throws BadInput.
std::string description_core(const std::string& text);

// A kernel that a pack describes, whose source is not there. Throws BadInput as for a folder's kernel.json.
std::unique_ptr<const Kernel> packed_description(const std::string& name, const std::string& text,
                                                 const std::string& file);

}  // namespace moetune
