#include "jobs/session/kernel_files.h"

#include "base/digest.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "tuner/compile/sources.h"

namespace moetune {
std::string kernel_source_digest(const std::string& kernel) {
  DigestBuilder builder;
  for (const std::string& path : list_resources("templates/" + kernel)) {
    const bool own = path == "templates/" + kernel + ".cu" || path.starts_with("templates/" + kernel + "/");
    const bool reference = path.ends_with("/reference.cu");
    if (own && !reference && path.ends_with(".cu")) builder.add(path).add(source_digest(path));
  }
  if (const auto description = find_resource("templates/" + kernel + "/kernel.json")) {
    // The launches and macros of a described kernel are as much part of it as its source.
    builder.add(description_core(*description));
  }
  return builder.finish();
}

}  // namespace moetune
