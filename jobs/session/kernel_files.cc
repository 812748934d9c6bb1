#include "jobs/session/kernel_files.h"

#include "base/digest.h"
#include "base/resources.h"
#include "tuner/compile/sources.h"

namespace moetune {
std::string kernel_source_digest(const std::string& kernel) {
  DigestBuilder builder;
  for (const std::string& path : list_resources("templates/" + kernel)) {
    const bool own = path == "templates/" + kernel + ".cu" || path.starts_with("templates/" + kernel + "/");
    const bool reference = path.ends_with("/reference.cu");
    if (own && !reference && path.ends_with(".cu")) builder.add(path).add(source_digest(path));
  }
  return builder.finish();
}

}  // namespace moetune
