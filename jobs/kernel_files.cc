#include "jobs/kernel_files.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/resources.h"
#include "tuner/compile/sources.h"

namespace moetune {
namespace {

std::string space_path(const std::string& kernel) { return "spaces/" + kernel + ".json"; }

}  // namespace

Space load_space(const std::string& kernel) {
  Space space = Space::parse(read_resource(space_path(kernel)), space_path(kernel));
  if (space.kernel() != kernel) {
    throw BadInput(space_path(kernel) + ": \"kernel\" is '" + space.kernel() + "' and must be '" + kernel +
                   "', as the file is named");
  }
  return space;
}

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
