#include "kernels/registry.h"

#include <string>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

// One function a kernel, defined in kernels/NAME.cc; one line here and one in the list make it known.
const Kernel& decode_attention();
const Kernel& decode_kernel();
const Kernel& tensor_ceiling();

const std::vector<const Kernel*>& all_kernels() {
  static const std::vector<const Kernel*> kernels = {&decode_attention(), &decode_kernel(),
                                                     &tensor_ceiling()};
  return kernels;
}

const Kernel* known_kernel(std::string_view name) {
  for (const Kernel* kernel : all_kernels()) {
    if (kernel->name() == name) return kernel;
  }
  return nullptr;
}

const Kernel& find_kernel(std::string_view name) {
  if (const Kernel* kernel = known_kernel(name)) return *kernel;
  std::vector<std::string> names;
  for (const Kernel* kernel : all_kernels()) names.push_back(kernel->name());
  throw BadInput(unknown_name("kernel", name, names));
}

}  // namespace moetune
