#include "kernels/kernel_space.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "base/resources.h"

namespace moetune {

Space load_space(const std::string& kernel) {
  const std::string path = "spaces/" + kernel + ".json";
  Space space = Space::parse(read_resource(path), path);
  if (space.kernel() != kernel) {
    throw BadInput(path + ": \"kernel\" is '" + space.kernel() + "' and must be '" + kernel +
                   "', as the file is named");
  }
  return space;
}

const Space& shared_space(const std::string& kernel) {
  static std::mutex mutex;
  static std::map<std::string, Space> spaces;
  const std::lock_guard lock(mutex);
  auto found = spaces.find(kernel);
  if (found == spaces.end()) found = spaces.emplace(kernel, load_space(kernel)).first;
  return found->second;
}

}  // namespace moetune
