#include "kernels/kernel_space.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "base/resources.h"

namespace moetune {

namespace {

std::string space_path(const std::string& kernel) { return "spaces/" + kernel + ".json"; }

Space parse_space(const std::string& kernel, const std::string& text) {
  const std::string path = space_path(kernel);
  Space space = Space::parse(text, path);
  if (space.kernel() != kernel) {
    throw BadInput(path + ": \"kernel\" is '" + space.kernel() + "' and must be '" + kernel +
                   "', as the file is named");
  }
  return space;
}

}  // namespace

Space load_space(const std::string& kernel) { return parse_space(kernel, read_resource(space_path(kernel))); }

const Space& shared_space(const std::string& kernel) {
  static std::mutex mutex;
  static std::map<std::string, Space> spaces;  // by their text: a user's kernel may change
  const std::string text = read_resource(space_path(kernel));
  const std::lock_guard lock(mutex);
  auto found = spaces.find(text);
  if (found == spaces.end()) found = spaces.emplace(text, parse_space(kernel, text)).first;
  return found->second;
}

}  // namespace moetune
